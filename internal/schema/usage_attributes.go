package schema

// UsageAttributes are all attributes that whoever adds up usage writes, and requires: of
// snapshots, of sums, and of the item that says how far hours are closed. A name that ends
// in * stands for all that begin so.
func UsageAttributes() []string {
	return []string{
		PK, SK, attrEntity, attrResource, attrWindow, attrWindowStart, attrTotalEvents, attrUsageSeq, GSI3PK, GSI3SK, TTL, usagePrefix + "*",
		attrParentID, attrPlan, attrClosed,
		attrSummed, attrEntities, attrFinal, attrMadeAt, attrClosedTo, attrFinalTo, attrFrom,
		attrClosing, attrFinishing, attrCounted,
	}
}
