package bucket

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

type vectorState struct {
	Tokens, RF, Burst, Amount, Period int64
}

func (v vectorState) state() State {
	return State{Rate: Rate{Burst: v.Burst, Amount: v.Amount, Period: v.Period}, Tokens: v.Tokens, Refilled: v.RF}
}

type vector struct {
	Group, Name string
	In          struct {
		State                 *vectorState
		Now, Need             int64
		Take, Adjust, Back    int64
		Move                  bool
		Start                 int64
		Steps                 []int64
		Burst, Amount, Period int64
	}
	Expect json.RawMessage
}

func loadVectors(t *testing.T) []vector {
	path := os.Getenv("DYNALIMIT_VECTORS")
	if path == "" {
		path = "testdata/bucket.json"
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var file struct{ Vectors []vector }
	require.NoError(t, json.Unmarshal(data, &file))
	require.GreaterOrEqual(t, len(file.Vectors), 400)
	return file.Vectors
}

// TestVectors checks the arithmetic against the reference model's vectors, read
// from the file named by DYNALIMIT_VECTORS, else from testdata.
func TestVectors(t *testing.T) {
	groups := map[string]int{}
	for _, v := range loadVectors(t) {
		groups[v.Group]++
		t.Run(v.Group+"/"+v.Name, func(t *testing.T) {
			checkVector(t, v)
		})
	}
	require.Len(t, groups, 4, "level, wait, write and telescope vectors")
}

func checkVector(t *testing.T, v vector) {
	in := v.In
	switch v.Group {
	case "level":
		var want struct{ Tokens int64 }
		require.NoError(t, json.Unmarshal(v.Expect, &want))
		require.Equal(t, want.Tokens, in.State.state().Level(in.Now))
	case "wait":
		var want struct {
			WaitMS *int64 `json:"wait_ms"`
		}
		require.NoError(t, json.Unmarshal(v.Expect, &want))
		got := in.State.state().Wait(in.Now, in.Need)
		if want.WaitMS == nil {
			require.EqualValues(t, Never, got)
		} else {
			require.Equal(t, *want.WaitMS, got)
		}
	case "write":
		var want *struct {
			Add, High int64
			Low       *int64
		}
		require.NoError(t, json.Unmarshal(v.Expect, &want))
		s := in.State.state()
		require.Equal(t, want != nil, in.Take == 0 || in.Take <= min(s.Burst, s.Level(in.Now)+in.Back))
		if want == nil {
			return
		}
		credit, _ := s.Credit(in.Now)
		got := s.Decide(credit, Amounts{Back: in.Back, Take: in.Take, Adjust: in.Adjust}, Way{Move: in.Move})
		if got.Full { // another form than the reference's, which trims by what it saw: the same on what it saw
			require.Equal(t, in.State.Tokens+want.Add, got.Put)
			require.LessOrEqual(t, got.Low, in.State.Tokens)
			return
		}
		require.Equal(t, want.Add, got.Add)
		require.Equal(t, want.High, got.High)
		require.Equal(t, want.Low != nil, got.HasLow)
		if want.Low != nil {
			require.Equal(t, *want.Low, got.Low)
		}
	case "telescope":
		var want struct{ Tokens int64 }
		require.NoError(t, json.Unmarshal(v.Expect, &want))
		s := State{Rate: Rate{Burst: in.Burst, Amount: in.Amount, Period: in.Period}, Refilled: in.Start}
		for _, now := range in.Steps {
			credit, ok := s.Credit(now)
			require.True(t, ok)
			u := s.Decide(credit, Amounts{}, Way{Move: true})
			s.Tokens, s.Refilled = s.Tokens+u.Add, now
		}
		require.Equal(t, want.Tokens, s.Tokens)
	default:
		t.Fatalf("unknown group %q", v.Group)
	}
}
