package ddb

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// permissions is the page that lists the actions a role needs.
const permissions = "docs/permissions.md"

var action = regexp.MustCompile(`dynamodb:[A-Za-z]+`)

// Explain returns a text about the wrong setting behind an error, and the way to correct it. It returns "" for
// another error, or for one that explains itself.
func Explain(err error) string {
	var known *requestError
	if errors.As(err, &known) {
		err = known.diagnosis.Err
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var api smithy.APIError
	var slow *slowCredentialsError
	switch {
	case errors.As(err, &slow):
		return slow.Error()
	case failedForCredentials(err):
		return "there are no credentials of AWS, or they cannot be obtained; " + checkProvider
	case errors.As(err, &api):
		return explainCode(err, api)
	case errors.As(err, &dns):
		return "the host " + dns.Name + " does not resolve; check the region and the endpoint"
	case errors.As(err, &certificate):
		return "the endpoint shows the certificate of another host; check the endpoint"
	case containsAny(err, "Missing Region"):
		return "no region is set; set AWS_REGION, or name a region"
	case lacksAddress(err):
		return "the endpoint is not a URL; give one such as http://localhost:8000"
	case isCut(err):
		return "the answer broke off"
	case refusesLoad(statusOf(err)):
		return explainLoad(err)
	case isGarbled(err) || statusOf(err) >= 400 && statusOf(err) < 500:
		return ErrForeign.Error()
	}
	return ""
}

// explainLoad describes a refusal by HTTP status alone, from a proxy.
func explainLoad(err error) string {
	return fmt.Sprintf("a proxy before DynamoDB refuses the request (HTTP %d)", statusOf(err))
}

// explainCode describes the setting behind an error code, and its remedy. It returns "" for codes that
// explain themselves.
func explainCode(err error, api smithy.APIError) string {
	switch code := api.ErrorCode(); code {
	case "AccessDeniedException", "AccessDenied":
		return explainDenial(err, api.ErrorMessage())
	case "ResourceNotFoundException":
		return "the table does not exist here; check its name, the region and the endpoint, or create it"
	case "ExpiredTokenException", "ExpiredToken":
		return "the credentials have expired; renew them, or use a provider that does"
	case "UnrecognizedClientException", "InvalidClientTokenId", "AuthFailure", "OptInRequired":
		return "the credentials are not known here; check them, the region and the endpoint"
	case "MissingAuthenticationToken", "MissingAuthenticationTokenException":
		return "there are no credentials; configure a provider of them"
	case "InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature", "IncompleteSignatureException", "RequestExpired":
		return "the signature is refused; check the secret key and this machine's clock"
	case "UnknownOperationException":
		return ErrForeign.Error()
	case "UnknownError":
		switch status := statusOf(err); {
		case refusesLoad(status):
			return explainLoad(err)
		case status < 500:
			return ErrForeign.Error()
		}
	}
	return ""
}

// DeniesAccess reports whether an error is a refusal of IAM: the role lacks the permission for the request.
func DeniesAccess(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && (api.ErrorCode() == "AccessDeniedException" || api.ErrorCode() == "AccessDenied")
}

// explainDenial returns a text that names the action that is not allowed. A message without an action is about
// something else, such as the table's key in KMS, and is returned unchanged.
func explainDenial(err error, message string) string {
	missing := action.FindString(message)
	var op *smithy.OperationError
	switch {
	case missing != "":
	case message != "":
		return message
	case errors.As(err, &op):
		missing = "dynamodb:" + op.OperationName
	default:
		missing = "this"
	}
	return "the role may not perform " + missing + "; allow it, see " + permissions
}

// throttlingReasons returns a text with the tables or indexes, and their exceeded limits, that DynamoDB gives
// as reasons of a throttled request; "" without reasons.
func throttlingReasons(err error) string {
	var reasons []types.ThrottlingReason
	if e, ok := errors.AsType[*types.ThrottlingException](err); ok {
		reasons = e.ThrottlingReasons
	} else if e, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err); ok {
		reasons = e.ThrottlingReasons
	} else if e, ok := errors.AsType[*types.RequestLimitExceeded](err); ok {
		reasons = e.ThrottlingReasons
	}
	var text strings.Builder
	for _, r := range reasons {
		fmt.Fprintf(&text, " (%s of %s)", aws.ToString(r.Reason), aws.ToString(r.Resource))
	}
	return text.String()
}
