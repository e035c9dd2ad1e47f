//go:build !linux

package keeper

import "time"

// pause waits for d.
func pause(d time.Duration) { <-time.After(d) }
