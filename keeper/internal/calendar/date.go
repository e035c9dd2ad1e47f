package calendar

import "time"

const dayLayout = "20060102"

// dateIn returns the date of the instant t in the zone, as text such as 20260123. These texts sort by time.
func dateIn(t time.Time, zone *time.Location) string { return t.In(zone).Format(dayLayout) }

// ParseDay parses a day such as "20260123" and returns its noon in UTC. For any other text it returns an error
// with a time without meaning.
func ParseDay(day string) (time.Time, error) {
	t, err := time.Parse(dayLayout, day)
	return t.Add(12 * time.Hour), err
}

// AddDays returns the day n days after day; a negative n goes back. Both are texts such as 20260123. It returns
// an invalid day unchanged.
func AddDays(day string, n int) string {
	t, err := time.Parse(dayLayout, day)
	if err != nil {
		return day
	}
	return t.AddDate(0, 0, n).Format(dayLayout)
}
