package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// service is a limiter in use, whose changes and usage are kept for an hour.
type service struct {
	*testing.T
	db      *ddbmem.DB
	repo    *dynalimit.Repository
	limiter *dynalimit.RateLimiter

	mu   sync.Mutex
	gone map[schema.Key]bool // by their time to live
}

const keep = time.Hour

func newService(t *testing.T) *service {
	s := &service{T: t, db: ddbmem.New(), gone: map[schema.Key]bool{}}
	t.Cleanup(s.db.Close)
	var err error
	s.repo, err = dynalimit.NewRepository(s.db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ann", AuditRetention: keep})
	require.NoError(t, err)
	require.NoError(t, s.repo.CreateTable(t.Context()))
	s.limiter, err = dynalimit.New(s.repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerHour("rph", 3)}})
	require.NoError(t, err)
	s.db.OnWrite(func(w ddbmem.Write) {
		if key := schema.KeyOf(w.Old); w.Expired && isHistory(key) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.gone[key] = true
		}
	})
	return s
}

// isHistory is what archives keep, told in another way than the archive does.
func isHistory(key schema.Key) bool {
	for _, prefix := range []string{"#AUDIT#", "#USAGE#"} {
		if len(key.SK) > len(prefix) && key.SK[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}

// hour is an hour of the service: calls, changes, and what expires.
func (s *service) hour(n int) {
	ctx := s.Context()
	for i := range 5 {
		_, err := s.limiter.Acquire(ctx, fmt.Sprint("key-", n%3), "gpt-4", dynalimit.Amounts{"rph": 1})
		if i < 3 {
			require.NoError(s, err)
		}
	}
	require.NoError(s, admin.New(s.repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerHour("rph", 3), dynalimit.PerDay("rpd", int64(1000+n))}))
	<-time.After(time.Hour)
	s.db.ExpireNow()
}

// counted is whether an hour of an entity is in the table.
func (s *service) counted(entity string, hour time.Time) bool {
	out, err := s.db.Client().GetItem(s.Context(), &dynamodb.GetItemInput{
		TableName: aws.String("limits"), Key: schema.Keys{}.Usage(entity, "gpt-4", hour).Attributes(),
	})
	require.NoError(s, err)
	return len(out.Item) > 0
}

// follow has the table's stream processed until the function that it returns is called.
func (s *service) follow(name string, process aggregator.ProcessFunc) (stop func()) {
	tail, err := aggregator.NewTail(s.db.StreamsClient(), s.db.Client(), "limits", process, &aggregator.TailOptions{Name: name, Poll: time.Minute, Hold: time.Hour})
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- tail.Run(ctx) }()
	return func() {
		cancel()
		err := <-done
		if !errors.Is(err, context.Canceled) {
			assert.NoError(s, err)
		}
	}
}

// TestOutageOfTheWriter: while files cannot be written for hours, usage is counted as ever;
// when they can again, everything that expired is in the archive, each item once by its event.
func TestOutageOfTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		processor, err := aggregator.New(s.db.Client(), "limits", &aggregator.Options{Retention: keep})
		require.NoError(t, err)
		files := &memory{}
		a, err := New(files, nil)
		require.NoError(t, err)
		stopFold, stopArchive := s.follow("usage", processor.Process), s.follow("archive", a.Process)
		for n := range 9 {
			if n == 3 {
				files.mu.Lock()
				files.fails = func(string) error { return errors.New("S3 is down") }
				files.mu.Unlock()
			}
			began := time.Now().Truncate(time.Hour)
			s.hour(n)
			assert.True(t, s.counted(fmt.Sprint("key-", n%3), began), "hour %d is counted", n)
			switch n {
			case 4: // whoever runs it starts it again meanwhile
				stopArchive()
				stopArchive = s.follow("archive", a.Process)
			case 5: // after 3 hours
				files.mu.Lock()
				files.fails = nil
				files.mu.Unlock()
			}
		}
		<-time.After(10 * time.Minute)
		require.NoError(t, s.limiter.Close(t.Context()))
		stopArchive()
		stopFold()

		byEvent := map[string]Line{}
		for _, line := range files.lines(t) {
			if same, twice := byEvent[line.EventID]; twice {
				assert.Equal(t, same, line)
			}
			byEvent[line.EventID] = line
		}
		kept := map[schema.Key]bool{}
		kinds := map[Kind]int{}
		for _, line := range byEvent {
			key := keyOf(t, line)
			assert.False(t, kept[key], "%v is there once", key)
			kept[key] = true
			kinds[line.Kind]++
		}
		assert.Equal(t, s.gone, kept)
		assert.Greater(t, kinds[Usage], 5)
		assert.Greater(t, kinds[Audit], 5)
	})
}

// keyOf is the key of the item of a line.
func keyOf(t *testing.T, line Line) schema.Key {
	t.Helper()
	var key schema.Key
	require.NoError(t, json.Unmarshal(line.Item, &key))
	return key
}
