package ddb

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// callerEnded reports whether the caller's context ended otherwise than by Bound's timeout.
func callerEnded(caller context.Context) bool {
	return caller.Err() != nil && !timedOut(caller)
}

// classifyTransport returns the diagnosis of a request without an answer: Unconfirmed if it may have been sent,
// Unsent if no connection was made, Failed for a wrong setting. All are silences but the last. The caller's own
// end, and an answer of another server, are Unconfirmed and no silence.
func classifyTransport(err error, caller context.Context) Diagnosis {
	if callerEnded(caller) {
		return Diagnosis{Verdict: Unconfirmed}
	}
	d := Diagnosis{Silent: true, expired: timedOut(caller)}
	switch {
	case d.expired:
		d.Verdict = Unconfirmed
	case isMisdirected(err):
		d = Diagnosis{Verdict: Failed, Setting: true, unproven: true}
	case lacksAddress(err):
		d = Diagnosis{Verdict: Failed, Setting: true}
	case isUndialled(err):
		d.Verdict = Unsent
	case isBroken(err):
		d.Verdict = Unconfirmed
	default:
		d = Diagnosis{Verdict: Failed}
	}
	if isGarbled(err) && !isSevered(err) {
		d = Diagnosis{Verdict: Unconfirmed} // an unknown server answered
	}
	return d
}

// isGarbled reports whether an answer could not be decoded.
func isGarbled(err error) bool { return errors.As(err, new(*smithy.DeserializationError)) }

// isCut reports whether an answer ended before it was complete. Its content is then unknown, even with a good
// status.
func isCut(err error) bool { return isGarbled(err) && isSevered(err) }

// isMisdirected reports whether the endpoint leads to the wrong place: an unknown host, or another host's
// certificate.
func isMisdirected(err error) bool {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &dns) || errors.As(err, &certificate)
}

// lacksAddress reports whether a request lacks an address: the region is missing, or the endpoint is not a
// URL.
func lacksAddress(err error) bool {
	return containsAny(err, "failed to resolve service endpoint", "Missing Region", "unsupported protocol scheme", "no Host in request URL")
}

// isUndialled reports whether no connection was made, so that nothing was sent.
func isUndialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED)
}

// isBroken reports whether the connection ended when a request may have been on its way.
func isBroken(err error) bool {
	var sent *smithyhttp.RequestSendError
	var canceled *smithy.CanceledError
	return errors.As(err, &sent) || isGarbled(err) || errors.As(err, &canceled) || isSevered(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isSevered reports whether a connection broke or timed out, or an answer ended early.
func isSevered(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		containsAny(err, "unexpected EOF", "unexpected end of JSON input") // the SDK's decoder has errors of its own
}

// containsAny reports whether the error's text contains one of the words.
func containsAny(err error, words ...string) bool {
	text := err.Error()
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
