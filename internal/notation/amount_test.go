package notation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

func TestAmounts(t *testing.T) {
	amounts, err := ParseAmounts([]string{"rpm=1", "tpm=2_000", "usd=$0.02"})
	require.NoError(t, err)
	assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 2000, "usd": 20_000}, amounts)
	for _, bad := range [][]string{{"rpm"}, {"=1"}, {"rpm=x"}, {"rpm="}, {"usd=$"}, {"usd=$1.0000001"}, {"rpm=1", "rpm=2"}} {
		_, err := ParseAmounts(bad)
		assert.Error(t, err, "%q", bad)
	}
}

func TestWaitIsNeverLessThanItIs(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", -time.Second: "0s", 1: "1ms", 850 * time.Millisecond: "850ms", 11*time.Second + 1: "12s", time.Minute: "1m",
		3*time.Minute + 11*time.Second + 1: "3m12s", 5*time.Hour + 29*time.Minute + 1: "5h30m", 24 * time.Hour: "1d",
		52*time.Hour - 1: "2d4h", dynalimit.Never: "never", dynalimit.Never - 1: "more than 10 years",
	} {
		assert.Equal(t, want, WaitText(d), "%v", d)
	}
}
