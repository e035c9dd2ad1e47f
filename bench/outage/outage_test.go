package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" { // outage runs itself again
		if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestOutage(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			var out, progress bytes.Buffer
			err := run(t.Context(), []string{"-json", "-for=1s", "-callers=8", "-failure=reset", "-policy=" + policy}, &out, &progress)
			if !errors.Is(err, errMissed) { // times are not judged here
				require.NoError(t, err, progress.String())
			}
			var all []report
			require.NoError(t, json.Unmarshal(out.Bytes(), &all))
			require.Len(t, all, 1)
			r := all[0]
			require.Positive(t, r.Rest.Count)
			require.LessOrEqual(t, r.Used-r.Doubt, r.Charged)
			if policy == "block" {
				require.Positive(t, r.Failed)
				return
			}
			require.Zero(t, r.Failed, r.Error)
			require.True(t, r.Deadline)
			require.LessOrEqual(t, r.Charged, r.Used)
			if policy == "local" {
				assert.LessOrEqual(t, r.Local, int64(smallLimit*share))
			}
		})
	}
}
