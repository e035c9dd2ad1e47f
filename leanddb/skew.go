package leanddb

import (
	"net/http"
	"sync/atomic"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// mostSkew is the largest offset with which this package signs. The SDK corrects a larger one.
	mostSkew = time.Minute
	// longestRequest is the longest request whose answer shows the offset, as in the SDK.
	longestRequest = 15 * time.Minute
)

// skew is the offset of DynamoDB's clock to this machine's, by the Date of the last answer. The SDK
// signs with the same offset.
type skew struct {
	offset atomic.Int64
	// last is the last parsed Date: most answers of one second have the same.
	last atomic.Pointer[parsedDate]
}

type parsedDate struct {
	text string
	at   time.Time
}

// value returns the offset of DynamoDB's clock from this machine's, by the last answer: positive if DynamoDB's
// is ahead, 0 before any.
func (s *skew) value() time.Duration { return time.Duration(s.offset.Load()) }

// isSmall reports whether the offset is at most a minute, so that this package may sign with it.
func (s *skew) isSmall() bool { return s.value().Abs() <= mostSkew }

// observe sets the offset from the Date in the header of an answer that came at now to a request sent at asked.
// It ignores an answer without a valid Date, a cached one (with Age), and one that took more than 15 minutes.
func (s *skew) observe(header http.Header, asked, now time.Time) {
	text := header.Get("Date")
	if text == "" || header.Get("Age") != "" || now.Sub(asked) > longestRequest {
		return
	}
	date := s.last.Load()
	if date == nil || date.text != text {
		at, err := smithyhttp.ParseTime(text)
		if err != nil {
			return
		}
		date = &parsedDate{text, at}
		s.last.Store(date)
	}
	s.offset.Store(int64(date.at.Sub(now)))
}
