//go:build !linux

package main

import "time"

// pause waits.
func pause(d time.Duration) { idle(d) }
