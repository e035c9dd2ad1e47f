package report

import (
	"math"
	"time"
)

// sample is a report of a week by the hour: a day's rhythm, a spike in window 100, a gap in
// window 40 and two open hours at the end.
func sample() Report { return sampleOf(7 * 24) }

func sampleOf(hours int) Report {
	zone := time.FixedZone("Europe/Berlin", 3600)
	from := time.Date(2026, 1, 16, 0, 0, 0, 0, zone)
	r := Report{
		Table: "limits", Window: "hour", Zone: "Europe/Berlin", From: from, To: from.Add(time.Duration(hours) * time.Hour), Made: from.Add(time.Duration(hours)*time.Hour - 20*time.Minute),
	}
	for i := range hours {
		r.Starts = append(r.Starts, from.Add(time.Duration(i)*time.Hour))
	}
	names := []string{"search", "chat", "batch-import", "support-bot"}
	for k, resource := range []string{"gpt-4", "claude"} {
		res := Resource{Name: resource}
		for _, limit := range []struct {
			name  string
			scale float64
		}{{"rpm", 1}, {"tpm", 700}} {
			l := Limit{Name: limit.name, Total: make([]int64, hours), Marks: []Mark{
				{Window: min(40, hours-1), Unseen: 90}, {Window: min(100, hours-1), Unrecorded: 24_000}, {Window: hours - 2, Open: true}, {Window: hours - 1, Open: true, Pending: 12_500},
			}}
			for n, name := range names {
				s := Series{Entity: name, Values: make([]int64, hours)}
				for i := range hours {
					rhythm := 1.3 + math.Sin(float64(i-8)/24*2*math.Pi) + 0.2*math.Sin(float64(i*(n+3)))
					s.Values[i] = int64(1000 * math.Round(limit.scale*rhythm*400/float64((n+1)*(k+1))))
				}
				if n == 0 {
					s.Values[min(100, hours-1)] += int64(1000 * limit.scale * 2000)
				}
				l.Entities = append(l.Entities, s)
				for i, v := range s.Values {
					l.Total[i] += v
				}
			}
			for i := range l.Total {
				l.Total[i] += int64(1000 * limit.scale * 30)
			}
			res.Limits = append(res.Limits, l)
		}
		r.Resources = append(r.Resources, res)
	}
	r.Notes = NotesOf(r)
	return r
}
