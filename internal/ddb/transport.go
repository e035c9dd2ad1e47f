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
	return caller.Err() != nil && !expired(caller)
}

// classifyTransport returns the diagnosis of a request without an answer. The caller may have ended it, it
// may not have been sent, or a setting may be wrong.
func classifyTransport(err error, caller context.Context) Diagnosis {
	if callerEnded(caller) {
		return Diagnosis{Verdict: Unconfirmed}
	}
	d := Diagnosis{Silent: true, expired: expired(caller)}
	switch {
	case d.expired:
		d.Verdict = Unconfirmed
	case isMisdirected(err):
		d = Diagnosis{Verdict: Failed, Setting: true, unproven: true}
	case unaddressed(err):
		d = Diagnosis{Verdict: Failed, Setting: true}
	case isUndialled(err):
		d.Verdict = Unsent
	case broken(err):
		d.Verdict = Unconfirmed
	default:
		d = Diagnosis{Verdict: Failed}
	}
	if isGarbled(err) && !severed(err) {
		d = Diagnosis{Verdict: Unconfirmed} // an unknown server answered
	}
	return d
}

// isGarbled reports whether an answer could not be decoded.
func isGarbled(err error) bool { return errors.As(err, new(*smithy.DeserializationError)) }

// isCut reports whether an answer broke off. Its content is then unknown, even with a good status.
func isCut(err error) bool { return isGarbled(err) && severed(err) }

// isMisdirected reports whether the endpoint leads to the wrong place: an unknown host, or another host's
// certificate.
func isMisdirected(err error) bool {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &dns) || errors.As(err, &certificate)
}

// unaddressed reports whether a request lacks an address: the region is missing, or the endpoint is not a
// URL.
func unaddressed(err error) bool {
	return mentions(err, "failed to resolve service endpoint", "Missing Region", "unsupported protocol scheme", "no Host in request URL")
}

// isUndialled reports whether no connection was made, so that nothing was sent.
func isUndialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED)
}

// broken reports whether the connection ended when a request may have been on its way.
func broken(err error) bool {
	var sent *smithyhttp.RequestSendError
	var canceled *smithy.CanceledError
	return errors.As(err, &sent) || isGarbled(err) || errors.As(err, &canceled) || severed(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// severed reports whether a connection broke or timed out, or an answer ended early.
func severed(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		mentions(err, "unexpected EOF", "unexpected end of JSON input") // the SDK's decoder has errors of its own
}

// mentions reports whether the error's text contains one of the words.
func mentions(err error, words ...string) bool {
	text := err.Error()
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
