package doctor

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
)

// soon is the minimal remaining validity of credentials.
const soon = 15 * time.Minute

// checkRegion returns an OK finding with the region of the requests. It sends no request.
func (v *visit) checkRegion(context.Context) tables.Finding {
	if v.Engine {
		return tables.Fine("%s, which an engine ignores", v.Region)
	}
	return tables.Fine("%s", v.Region)
}

// checkCredentials retrieves the credentials and asks AWS for their identity. If they cannot be used, it is
// Wrong and sets v.down. It is a Warning if they expire within 15 minutes, and Unchecked if AWS names no
// identity.
func (v *visit) checkCredentials(ctx context.Context) tables.Finding {
	if v.Credentials == nil {
		return tables.Fine("an engine on this machine needs none")
	}
	ctx, cancel := v.withTimeout(ctx)
	defer cancel()
	given, err := v.Credentials.Retrieve(ctx)
	if err != nil {
		return v.badCredentials("there are none that can be used: " + innermostText(err))
	}
	if given.CanExpire && !v.Now().Before(given.Expires) {
		return v.badCredentials("they expired at " + clockText(given.Expires))
	}
	until := ""
	if given.CanExpire {
		until = ", until " + clockText(given.Expires)
	}
	if v.Identity == nil {
		return tables.Fine("those of %s%s", credentialSource(given), until)
	}
	who, err := v.Identity(ctx)
	switch causeOf(err) {
	case none:
	case refusedCredentials:
		return v.badCredentials(v.explainError(err))
	default:
		r := tables.CannotCheck("STS does not say who they are: %s", v.explainError(err))
		r.Means = "DynamoDB may accept them all the same: see the next checks"
		return r
	}
	if given.CanExpire && given.Expires.Sub(v.Now()) < soon {
		return tables.Finding{
			Status: tables.Warning, Found: who + until, Means: "they are about to expire: a longer run has to renew them",
			Fix: v.loginCommand(),
		}
	}
	return tables.Fine("%s%s", who, until)
}

// credentialSource names the provider of the credentials, or "the environment" if it is unknown.
func credentialSource(c aws.Credentials) string {
	if c.Source == "" {
		return "the environment"
	}
	return c.Source
}

// clockText formats an instant in UTC to the second.
func clockText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// loginCommand returns the AWS CLI command that renews credentials, with the profile if one is named.
func (v *visit) loginCommand() string {
	if v.Profile == "" {
		return "aws sso login"
	}
	return "aws sso login --profile " + v.Profile
}

// badCredentials returns a Wrong finding of credentials that cannot be used, with found as its text and a login
// command. It sets v.down, so that later checks send no request to DynamoDB.
func (v *visit) badCredentials(found string) tables.Finding {
	v.down = "the credentials cannot be used"
	return tables.Finding{Status: tables.Wrong, Found: found, Means: "every request is refused", Fix: v.loginCommand()}
}

// checkEndpoint describes the table, sets v.described for the next checks, and reports the time of the answer.
// It sets v.down if nothing or another program answers, or the credentials are refused. Other errors of
// DynamoDB, such as a missing table, are no fault here.
func (v *visit) checkEndpoint(ctx context.Context) tables.Finding {
	if v.down != "" {
		return tables.CannotCheck("%s", v.down)
	}
	v.described = v.describeTable(ctx, v.table.Name())
	facts := v.described
	switch c := causeOf(facts.err); {
	case c == refusedCredentials:
		return v.badCredentials(fmt.Sprintf("%s answers, and %s", v.Where, v.explainError(facts.err)))
	case c == notDynamoDB:
		v.down = v.explainError(facts.err)
		return tables.Finding{Status: tables.Wrong, Found: v.Where + ": " + v.down, Means: "nothing can be asked there", Fix: v.tableCommand("doctor")}
	case c == silent && !facts.reached:
		v.down = "the endpoint does not answer"
		r := tables.Finding{Status: tables.Wrong, Found: v.Where + ": " + v.explainError(facts.err), Means: "it is the network, the endpoint or the region, not a permission", Fix: "curl -sv https://dynamodb." + v.Region + ".amazonaws.com"}
		if v.Engine {
			r.Fix = "dynalimit local" + v.LocalFlags
		}
		return r
	}
	return tables.Fine("%s answered in %v", v.Where, facts.received.Sub(facts.sent).Round(time.Millisecond))
}

// describeTable requests the description of a table once. It returns the answer or the error in facts, with the
// answer's Date, the times around the request, and whether anything answered.
func (v *visit) describeTable(ctx context.Context, table string) *tableFacts {
	facts := &tableFacts{sent: v.Now()}
	out, err := v.Client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	facts.received, facts.err = v.Now(), err
	response := responseOf(err) //nolint:bodyclose // the SDK closed it
	if err == nil {
		facts.TableDescription = out.Table
		if raw, isHTTP := awsmiddleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response); isHTTP {
			response = raw.Response
		}
	}
	facts.reached = err == nil || response != nil
	if response != nil {
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			facts.date = date
		}
	}
	return facts
}

// clockOffset returns the least offset of this machine's clock from DynamoDB's, by the Date of an answer, which
// has whole seconds. It is positive if this machine is ahead, and 0 if the clocks may agree.
func (f *tableFacts) clockOffset() time.Duration {
	switch {
	case f.sent.After(f.date.Add(time.Second)):
		return f.sent.Sub(f.date.Add(time.Second))
	case f.received.Before(f.date):
		return f.received.Sub(f.date)
	}
	return 0
}

// The library corrects an offset of a second or more. An offset above a minute comes close to
// the offsets that AWS refuses.
const clockTolerated, clockWrong = time.Second, time.Minute

// checkClock compares this machine's clock with the Date of the answer in v.described. An offset of a second or
// more is a Warning, and of a minute or more Wrong. Without an answer or a Date it is Unchecked.
func (v *visit) checkClock(context.Context) tables.Finding {
	if v.described == nil {
		return tables.CannotCheck("%s", v.down)
	}
	if v.described.date.IsZero() {
		return tables.CannotCheck("the answer has no Date")
	}
	off := v.described.clockOffset()
	found := fmt.Sprintf("this machine is %v ahead", off.Round(10*time.Millisecond))
	if off < 0 {
		off = -off
		found = fmt.Sprintf("this machine is %v behind", off.Round(10*time.Millisecond))
	}
	const fix = "sudo chronyc makestep"
	switch {
	case off < clockTolerated:
		return tables.Fine("as DynamoDB's, to a second")
	case off < clockWrong:
		return tables.Finding{Status: tables.Warning, Found: found, Means: "the limiter corrects for it (RepositoryOptions.CorrectClock); other programs do not", Fix: fix}
	}
	return tables.Finding{Status: tables.Wrong, Found: found, Means: "signatures of requests are refused at five minutes, and times in the table's records are wrong", Fix: fix}
}
