package ddb

import (
	"crypto/tls"
	"errors"
	"net"
	"regexp"

	"github.com/aws/smithy-go"
)

// permissions is the page that lists the actions a role needs.
const permissions = "docs/permissions.md"

var action = regexp.MustCompile(`dynamodb:[A-Za-z]+`)

// Explain says which setting is wrong and how to make it right; "" for an error
// that is not a setting's, or explains itself.
func Explain(err error) string {
	var known *requestError
	if errors.As(err, &known) {
		err = known.diagnosis.Err
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var api smithy.APIError
	switch {
	case fromCredentials(err):
		return "credentials cannot be had; check the provider, role or profile that the client was made with"
	case errors.As(err, &api):
		return explainCode(err, api)
	case errors.As(err, &dns):
		return "the host " + dns.Name + " does not resolve; check the client's region and endpoint"
	case errors.As(err, &certificate):
		return "the endpoint shows the certificate of another host; check the client's endpoint"
	case mentions(err, "Missing Region"):
		return "no region is set; set AWS_REGION, or Region in the client's options"
	case unaddressed(err):
		return "the endpoint is not a URL; give one such as http://localhost:8000"
	case statusOf(err) >= 400 && statusOf(err) < 500:
		return "what answers at the endpoint is not DynamoDB; check the client's endpoint"
	}
	return ""
}

func explainCode(err error, api smithy.APIError) string {
	switch code := api.ErrorCode(); code {
	case "AccessDeniedException", "AccessDenied":
		return "the client's role may not perform " + missingAction(err, api.ErrorMessage()) + "; allow it, see " + permissions
	case "ResourceNotFoundException":
		return "the table does not exist here; check its name, and the client's region and endpoint, or create it"
	case "ExpiredTokenException", "ExpiredToken":
		return "the client's credentials have expired; renew them, or give the client a provider that does"
	case "UnrecognizedClientException", "InvalidClientTokenId", "AuthFailure", "OptInRequired":
		return "the client's credentials are not known here; check them, and the client's region and endpoint"
	case "MissingAuthenticationToken", "MissingAuthenticationTokenException":
		return "the client has no credentials; give it a provider"
	case "InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature", "IncompleteSignatureException", "RequestExpired":
		return "the signature is refused; check the client's secret key and this machine's clock"
	case "UnknownOperationException", "UnknownError":
		if k := classifyCode(err, code); k.Setting {
			return "what answers at the endpoint is not DynamoDB; check the client's endpoint"
		}
	}
	return ""
}

// missingAction is what DynamoDB says was not allowed, else the operation.
func missingAction(err error, message string) string {
	if found := action.FindString(message); found != "" {
		return found
	}
	var op *smithy.OperationError
	if errors.As(err, &op) {
		return "dynamodb:" + op.OperationName
	}
	return "this"
}
