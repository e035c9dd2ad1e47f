package otel_test

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// history is what was scraped, once a second.
type history []series

// windows are over how many seconds rates and increases are taken, by what the dashboard says.
var windows = map[string]float64{"$__rate_interval": 5, "1h": 3600}

// answer is one value of a query, of labels.
type answer struct {
	labels map[string]string
	value  float64
}

func (a *answer) key() (key string) {
	for _, name := range slices.Sorted(maps.Keys(a.labels)) {
		key += name + "=" + a.labels[name] + " "
	}
	return key
}

var (
	aQuantile    = regexp.MustCompile(`^histogram_quantile\(([\d.]+), (.*)\)$`)
	anAggregate  = regexp.MustCompile(`^(sum|max)(?: by \(([^)]*)\) | )?\((?:(rate|increase)\()?(dynalimit_[a-z_]+)\{(?:([a-z_]+)="([^"]*)",)?job=~"\$service"(,dynalimit_resource=~"\$resource")?\}(?:\[([^\]]+)\]\))?\)$`)
	aPlaceholder = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
)

// query answers a query of the dashboard at a second.
func (h history) query(t *testing.T, expr string, at int) map[string]answer {
	t.Helper()
	if m := aQuantile.FindStringSubmatch(expr); m != nil {
		q, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		return quantiles(q, h.query(t, m[2], at))
	}
	if part, whole, ok := strings.Cut(expr, " / "); ok {
		parts, wholes := h.query(t, part, at), h.query(t, whole, at)
		for key, a := range parts {
			of, there := wholes[key]
			if a.value /= of.value; !there {
				delete(parts, key)
				continue
			}
			parts[key] = a
		}
		return parts
	}
	m := anAggregate.FindStringSubmatch(expr)
	require.NotNil(t, m, "a query of another form: %s", expr)
	groups := map[string]answer{}
	for _, sample := range h[at][m[4]] {
		_, ofResource := sample.labels["dynalimit_resource"]
		require.Equal(t, ofResource, m[7] != "", "the variable of resources is for series with a resource: %s", expr)
		if m[5] != "" && sample.labels[m[5]] != m[6] {
			require.Contains(t, sample.labels, m[5], expr)
			continue
		}
		value, there := sample.value, true
		if m[3] != "" {
			value, there = h.increase(m[4], sample.labels, at, windows[m[8]])
		}
		if m[3] == "rate" {
			value /= windows[m[8]]
		}
		if !there {
			continue
		}
		a := answer{labels: map[string]string{}}
		for _, by := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			require.Contains(t, sample.labels, by, expr)
			a.labels[by] = sample.labels[by]
		}
		switch group, others := groups[a.key()]; {
		case m[1] == "sum":
			a.value = group.value + value
		case others:
			a.value = max(group.value, value)
		default:
			a.value = value
		}
		groups[a.key()] = a
	}
	return groups
}

// increase is that of one series over a window that ends at a second, as Prometheus computes it. A
// series that is not there has no value, so that one with a single sample in the window has no
// increase. What the samples do not cover of the window is extrapolated.
func (h history) increase(name string, labels map[string]string, at int, window float64) (value float64, there bool) {
	var values, times []float64
	for second := max(0, at-int(window)+1); second <= at; second++ {
		for _, sample := range h[second][name] {
			if maps.Equal(sample.labels, labels) {
				values, times = append(values, sample.value), append(times, float64(second))
			}
		}
	}
	if len(values) < 2 {
		return 0, false
	}
	value = values[len(values)-1] - values[0]
	sampled := times[len(times)-1] - times[0]
	before, apart := times[0]-(float64(at)-window), sampled/float64(len(times)-1)
	if before >= 1.1*apart {
		before = apart / 2
	}
	if value > 0 { // a counter is not below 0
		before = min(before, sampled*values[0]/value)
	}
	return value * (sampled + before) / sampled, true
}

// quantiles are those of histograms, each of which has a value for each bound le.
func quantiles(q float64, bounds map[string]answer) map[string]answer {
	type bucket struct{ le, count float64 }
	of, buckets := map[string]answer{}, map[string][]bucket{}
	for _, b := range bounds {
		le, _ := strconv.ParseFloat(b.labels["le"], 64)
		a := answer{labels: maps.Clone(b.labels), value: math.NaN()}
		delete(a.labels, "le")
		of[a.key()], buckets[a.key()] = a, append(buckets[a.key()], bucket{le, b.value})
	}
	for key, list := range buckets {
		slices.SortFunc(list, func(a, b bucket) int { return int(math.Copysign(1, a.le-b.le)) })
		rank, below := q*list[len(list)-1].count, bucket{}
		for _, b := range list {
			if b.count >= rank && b.count > 0 {
				a := of[key]
				if a.value = below.le; !math.IsInf(b.le, 1) && b.count > below.count {
					a.value += (b.le - below.le) * (rank - below.count) / (b.count - below.count)
				}
				of[key] = a
				break
			}
			below = b
		}
	}
	return of
}

// lines answers a query at each second; what has no number anywhere is left out.
func (h history) lines(t *testing.T, expr, legend string) (all []line) {
	t.Helper()
	byKey := map[string]*line{}
	for at := range h {
		for key, a := range h.query(t, expr, at) {
			if byKey[key] == nil {
				byKey[key] = &line{values: slices.Repeat([]float64{math.NaN()}, len(h)), legend: aPlaceholder.ReplaceAllStringFunc(legend, func(p string) string {
					require.Contains(t, a.labels, p[2:len(p)-2], "a legend of %s", expr)
					return a.labels[p[2:len(p)-2]]
				})}
			}
			byKey[key].values[at] = a.value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if slices.ContainsFunc(byKey[key].values, func(v float64) bool { return !math.IsNaN(v) }) {
			all = append(all, *byKey[key])
		}
	}
	return all
}
