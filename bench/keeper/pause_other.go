//go:build !linux

package keeper

import "time"

// pause waits.
func pause(d time.Duration) { <-time.After(d) }
