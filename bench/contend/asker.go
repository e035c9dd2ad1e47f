package contend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
)

// asker is the limiter of one process.
type asker interface {
	// ask requests one token of a bucket. If denied is true, rest is the time to wait before the next call.
	ask(ctx context.Context, bucket string) (denied bool, rest time.Duration, err error)
	close(ctx context.Context) error
}

// peers open the limiters on Redis, by name.
var peers = map[string]func(task) (asker, error){"redis_rate": newRedisRate, "rueidis": newRueidis}

// ours is the limiter of this library.
type ours struct {
	*dynalimit.RateLimiter
	waits bool
}

// ask acquires a token of the bucket, or waits for it if o.waits. After a denial it returns true and the time
// until a retry.
func (o ours) ask(ctx context.Context, bucket string) (denied bool, rest time.Duration, err error) {
	if o.waits {
		_, err = o.Wait(ctx, bucket, subject.Resource, subject.One)
	} else {
		_, err = o.Acquire(ctx, bucket, subject.Resource, subject.One)
	}
	var denial *dynalimit.LimitExceededError
	if errors.As(err, &denial) {
		return true, denial.RetryAfter, nil
	}
	return false, 0, err
}

// close closes the limiter.
func (o ours) close(ctx context.Context) error { return o.Close(ctx) }

// redisRate is go-redis/redis_rate: a script for each call, on one of many connections.
type redisRate struct {
	client  *redis.Client
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

// newRedisRate returns an asker with redis_rate on the Redis at the task's endpoint.
func newRedisRate(t task) (asker, error) {
	client := redis.NewClient(&redis.Options{Addr: t.Endpoint, PoolSize: t.Settings.Goroutines})
	limit := redis_rate.Limit{Rate: int(t.Settings.Rate), Burst: int(t.Settings.Burst), Period: time.Second}
	return &redisRate{client, redis_rate.NewLimiter(client), limit}, nil
}

// ask requests a token of the bucket. After a denial it returns true and the time until a retry.
func (r *redisRate) ask(ctx context.Context, bucket string) (denied bool, rest time.Duration, err error) {
	got, err := r.limiter.Allow(ctx, bucket, r.limit)
	if err != nil {
		return false, 0, err
	}
	return got.Allowed == 0, got.RetryAfter, nil
}

// close closes the connections to Redis.
func (r *redisRate) close(context.Context) error { return r.client.Close() }

// takeOne is a token bucket as one script. It stores the tokens and the instant of the last take, in µs. It
// returns whether a token was there, and the time in ms until the next one.
const takeOne = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local burst, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local is = redis.call('HMGET', KEYS[1], 'tk', 'at')
local tokens = math.min(burst, (tonumber(is[1]) or burst) + (now - (tonumber(is[2]) or now)) * rate / 1000000)
if tokens < 1 then return {0, math.ceil((1 - tokens) * 1000 / rate)} end
redis.call('HSET', KEYS[1], 'tk', tokens - 1, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(burst * 1000 / rate) + 1000)
return {1, 0}
`

// viaRueidis is a script through rueidis, which pipelines the calls of many goroutines.
type viaRueidis struct {
	client rueidis.Client
	script *rueidis.Lua
	args   []string
}

// newRueidis returns an asker that runs the script takeOne on the Redis at the task's endpoint.
func newRueidis(t task) (asker, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{t.Endpoint}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return nil, err
	}
	return &viaRueidis{client, rueidis.NewLuaScript(takeOne), []string{fmt.Sprint(t.Settings.Burst), fmt.Sprint(t.Settings.Rate)}}, nil
}

// ask runs the script, which takes a token of the bucket. After a denial it returns true and the time until a
// retry.
func (r *viaRueidis) ask(ctx context.Context, bucket string) (denied bool, rest time.Duration, err error) {
	got, err := r.script.Exec(ctx, r.client, []string{bucket}, r.args).AsIntSlice()
	if err == nil && len(got) != 2 {
		err = fmt.Errorf("%d values of the script, not 2", len(got))
	}
	if err != nil {
		return false, 0, err
	}
	return got[0] == 0, time.Duration(got[1]) * time.Millisecond, nil
}

// close closes the connections to Redis.
func (r *viaRueidis) close(context.Context) error {
	r.client.Close()
	return nil
}
