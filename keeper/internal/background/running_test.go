package background

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRunningRisesAgainWhileWaitedFor: a WaitGroup would panic.
func TestRunningRisesAgainWhileWaitedFor(t *testing.T) {
	var r Running
	r.Wait()
	ended := 0
	var mu sync.Mutex
	for range 500 {
		r.Add(1)
		go func() {
			mu.Lock()
			defer mu.Unlock()
			ended++
			r.Done()
		}()
		if ended := make(chan struct{}); true {
			go func() { r.Wait(); close(ended) }()
			r.Add(1)
			go r.Done()
			<-ended
		}
	}
	r.Wait()
	assert.Equal(t, 500, ended)
}
