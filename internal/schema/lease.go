package schema

import (
	"fmt"
	"strings"
	"time"
)

// Attribute names of leases.
const (
	attrHolder     = "holder"
	attrToken      = "token"
	attrFence      = "fence"
	attrLeaseUntil = "lease_until"

	skLease = "#LEASE"
	// maxLeaseName bounds the name of a lease, in bytes.
	maxLeaseName = 64
)

// LeaseKept is the time for which the item of a lease stays after its end. While it exists, fences count from
// its own. After that they count from the time, which is higher by then.
const LeaseKept = 30 * 24 * time.Hour

// Lease is an exclusive hold until an instant. The zero value is a lease that was never held.
type Lease struct {
	// Holder names the holder, for people.
	Holder string
	// Token is known to the holder alone; "" after the release.
	Token string
	// Fence rises with every take.
	Fence int64
	// Until is the end of the hold, by the holder's clock, in milliseconds.
	Until int64
}

// CheckLease returns why the name of a lease is invalid, as a text, or "". A name has 1 to 64 letters a to z,
// and hyphens after the first.
func CheckLease(name string) string {
	if name == "" || len(name) > maxLeaseName {
		return fmt.Sprintf("has %d bytes; give 1 to %d", len(name), maxLeaseName)
	}
	for i, c := range name {
		if lower := c >= 'a' && c <= 'z'; !lower && (i == 0 || c != '-') {
			return fmt.Sprintf("%q contains %q; use a to z, and - after the first letter", name, c)
		}
	}
	return ""
}

// Lease returns the key of the lease of a name: MANIFEST# and #LEASE for "manifest".
func (k Keys) Lease(name string) Key { return Key{k.prefix + strings.ToUpper(name) + "#", skLease} }

// EncodeLease returns the item of a lease, also with an empty token. It expires LeaseKept after the end of the
// hold.
func EncodeLease(key Key, l Lease) Item {
	return Item{
		PK: String(key.PK), SK: String(key.SK), attrHolder: String(l.Holder), attrToken: String(l.Token), attrFence: Number(l.Fence),
		attrLeaseUntil: Number(l.Until), TTL: Number(leaseTTL(l.Until)),
	}
}

// leaseTTL returns the expiry of a lease's item in Unix seconds: LeaseKept after until, which is in Unix ms.
func leaseTTL(until int64) int64 { return until/1000 + int64(LeaseKept/time.Second) }

// DecodeLease reads a lease. It returns the zero Lease for an absent item, and an error if fence or end is
// missing or malformed.
func DecodeLease(item Item) (Lease, error) {
	if item == nil {
		return Lease{}, nil
	}
	d := decoder{item: item}
	l := Lease{Holder: Text(item, attrHolder), Token: Text(item, attrToken)}
	l.Fence, _ = d.number(attrFence)
	l.Until, _ = d.number(attrLeaseUntil)
	if d.err == nil && (item[attrFence] == nil || item[attrLeaseUntil] == nil) {
		return l, fmt.Errorf("attribute %s or %s is missing", attrFence, attrLeaseUntil)
	}
	return l, d.err
}

// LeaseUnchanged returns the condition that a lease still has the fence and the end of its item. A nil old
// requires that there is no item.
func LeaseUnchanged(old Item) Statement {
	b := newStatementBuilder()
	b.recordIs(old, attrFence, attrLeaseUntil)
	return withoutEmptyValues(b.build())
}

// RenewLease returns the update that sets the end of the hold, in Unix ms, and the item's expiry. It fails to
// apply unless the lease still has the token.
func RenewLease(token string, until int64) Statement {
	b := newStatementBuilder()
	b.setValue(attrLeaseUntil, Number(until))
	b.setValue(TTL, Number(leaseTTL(until)))
	b.requireCompare(attrToken, "=", String(token))
	return b.build()
}

// ReleaseLease returns the update that removes the token and so ends the hold. It fails to apply unless the
// lease still has the token; the item stays, for its fence.
func ReleaseLease(token string) Statement {
	b := newStatementBuilder()
	b.drop(attrToken)
	b.requireCompare(attrToken, "=", String(token))
	return b.build()
}
