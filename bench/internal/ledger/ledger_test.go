package ledger_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/internal/bucket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

func item() ledger.Item {
	return ledger.Item{
		"rf": number("1000"), "b_a.b_tk": number("-5"), "b_a.b_bx": number("10"),
		"b_a.b_ra": number("3"), "b_a.b_rp": number("7"), "b_a.b_tc": number("99"),
	}
}

func TestRead(t *testing.T) {
	e, err := ledger.Read(item(), "a.b")
	require.NoError(t, err)
	require.Equal(t, ledger.Entry{
		State:    bucket.State{Rate: bucket.Rate{Burst: 10, Amount: 3, Period: 7}, Tokens: -5, Refilled: 1000},
		Consumed: 99,
	}, e)

	_, err = ledger.Read(item(), "other")
	require.ErrorContains(t, err, "b_other_tk")
	bad := item()
	bad["rf"] = number("1.5")
	_, err = ledger.Read(bad, "a.b")
	require.ErrorContains(t, err, "rf")
}

func TestBetween(t *testing.T) {
	rate := bucket.Rate{Burst: 10_000, Amount: 1000, Period: 1000} // one a second, ten at once
	entry := func(tokens, refilled, consumed int64) ledger.Entry {
		return ledger.Entry{State: bucket.State{Rate: rate, Tokens: tokens, Refilled: refilled}, Consumed: consumed}
	}
	tests := []struct {
		name       string
		start, end ledger.Entry
		from, to   int64
		want       ledger.Account
		used       float64
	}{
		{"nothing happened", entry(5000, 0, 7), entry(5000, 0, 7), 1000, 1000, ledger.Account{Allowed: 6000, Left: 6000}, 1},
		{"from empty, all used", entry(0, 0, 7000), entry(-4000, 0, 11_000), 0, 4000, ledger.Account{Allowed: 4000, Admitted: 4000}, 1},
		{"from empty, some left", entry(0, 0, 0), entry(-3000, 0, 3000), 0, 4000, ledger.Account{Allowed: 4000, Admitted: 3000, Left: 1000}, 1},
		{"overflowed", entry(10_000, 0, 0), entry(10_000, 0, 0), 0, 4000, ledger.Account{Allowed: 14_000, Left: 10_000, Lost: 4000}, 0},
		{"spilled half", entry(10_000, 0, 0), entry(8000, 4000, 4000), 0, 4000, ledger.Account{Allowed: 14_000, Admitted: 4000, Left: 8000, Lost: 2000}, 4.0 / 6},
		{"over", entry(0, 0, 0), entry(-4000, 0, 5000), 0, 4000, ledger.Account{Allowed: 4000, Admitted: 5000, Lost: -1000}, 1.25},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ledger.Between(test.start, test.end, test.from, test.to)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.InDelta(t, test.used, got.Used(), 1e-9)
		})
	}
}

func TestBetweenRefusesAChangedLimit(t *testing.T) {
	start := ledger.Entry{State: bucket.State{Rate: bucket.Rate{Burst: 1, Amount: 1, Period: 1}}}
	end := ledger.Entry{State: bucket.State{Rate: bucket.Rate{Burst: 2, Amount: 1, Period: 1}}}
	_, err := ledger.Between(start, end, 0, 1)
	require.ErrorContains(t, err, "changed")
}

func TestSum(t *testing.T) {
	rate := bucket.Rate{Burst: 10_000, Amount: 1000, Period: 1000}
	full := ledger.Entry{State: bucket.State{Rate: rate, Tokens: 10_000}}
	half := ledger.Entry{State: bucket.State{Rate: rate, Tokens: 5000}, Consumed: 5000}
	got, err := ledger.Sum([]ledger.Entry{full, full}, []ledger.Entry{full, half}, 0, 0)
	require.NoError(t, err)
	require.Equal(t, ledger.Account{Allowed: 20_000, Admitted: 5000, Left: 15_000}, got)
}
