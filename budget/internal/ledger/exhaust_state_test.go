package ledger

type xPhase int8

const (
	xIdle      xPhase = iota
	xReserving        // sent at least once
	xDebited          // rule one left out: debited, the hold not yet put
	xReleasing        // refused once: gives back what had expired
	xRetrying         // then asks again
	xHeld
	xCalled
	xSettling // sent at least once
	xCounted  // its record was found counted: gives its hold back
	xRecord   // rule four left out: settled, sends its record too
	xGiveBack // the call did not happen
	xDone
	xDead
	xDenied
	xWrong // denied although there was room
)

type xClient struct {
	phase xPhase
	tried int8
	saw   [xClients]bool // holds it found expired after its first refusal
}

type xHold int8

const (
	xNone xHold = iota
	xLive
	xExpired
)

type xDedup int8

const (
	xFresh  xDedup = iota
	xOwn           // written by the client's settlement
	xOthers        // by another process that found the record
)

type xState struct {
	used    int
	quota   int
	spent   int
	money   int // really spent
	holds   [xClients]xHold
	dedup   [xClients + 2]xDedup
	clients [xClients]xClient
	soft    bool
}

// xRules are the rules of hard mode; the search breaks each in turn.
type xRules struct {
	name           string
	splitReserve   bool // the counter first, the hold after it
	needHold       bool // settle only while the hold exists
	noDedup        bool
	keepHold       bool // a duplicate settlement is over at once
	recordToo      bool // settle, and then submit the record
	storeLeft      bool // store what is left instead of what is used
	ignoreExpired  bool // deny without giving expired holds back
	noSoft, noGive bool
	noRaise        bool
}
