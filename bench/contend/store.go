package contend

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const table = "contend"

// store is the table under test, in a ddbmem on a loopback port.
type store struct {
	settings settings
	endpoint string
	db       *ddbmem.DB
	server   *http.Server
}

// openStore makes the table and its buckets, full or empty.
func openStore(ctx context.Context, s settings) (*store, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	st := &store{settings: s, endpoint: "http://" + listener.Addr().String(), db: ddbmem.New()}
	st.server = &http.Server{Handler: st.db, ReadHeaderTimeout: time.Minute}
	go func() { _ = st.server.Serve(listener) }() // until close
	if err := st.fill(ctx); err != nil {
		return nil, errors.Join(err, st.close())
	}
	st.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: s.Latency} })
	return st, nil
}

// fill writes the limit and makes the buckets: full but for a token that a call
// took and gave back, or empty.
func (st *store) fill(ctx context.Context) error {
	repo, err := dynalimit.NewRepository(st.db.Client(), table, &dynalimit.RepositoryOptions{Principal: "bench"})
	if err != nil {
		return err
	}
	if err := repo.CreateTable(ctx); err != nil {
		return err
	}
	limit := dynalimit.PerSecond(limitName, st.settings.Rate).WithBurst(st.settings.Burst)
	if err := admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: resource}, []dynalimit.Limit{limit}); err != nil {
		return err
	}
	limiter, err := dynalimit.New(repo, nil)
	if err != nil {
		return err
	}
	amount := int64(1)
	if st.settings.Start == "empty" {
		amount = st.settings.Burst
	}
	for b := range st.settings.Buckets {
		lease, err := limiter.Acquire(ctx, entity(b), resource, dynalimit.Amounts{limitName: amount})
		if err != nil {
			return err
		}
		if st.settings.Start == "full" {
			if err := lease.Rollback(ctx); err != nil {
				return err
			}
		}
	}
	return limiter.Close(ctx)
}

// entries reads the buckets as stored.
func (st *store) entries(ctx context.Context) ([]ledger.Entry, error) {
	out := make([]ledger.Entry, st.settings.Buckets)
	for b := range out {
		got, err := st.db.Client().GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(table), ConsistentRead: aws.Bool(true),
			Key: schema.NewKeys("").Bucket(entity(b), resource).Attributes(),
		})
		if err != nil {
			return nil, err
		}
		if out[b], err = ledger.Read(got.Item, limitName); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (st *store) close() error {
	st.db.Close()
	return st.server.Close()
}

// dial returns a client for an endpoint that checks no credentials.
func dial(endpoint string, transport aws.HTTPClient) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, HTTPClient: transport,
		Credentials: credentials.NewStaticCredentialsProvider("contend", "contend", ""),
	})
}
