package dialect

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/jsonscan"
)

// Asked is the meaning of a value of a request.
type Asked uint8

// The meanings.
const (
	Model        Asked = iota + 1
	MaxOutput          // the most tokens of one reply; of several the largest holds
	Choices            // how many replies
	Stream             // whether the answer is streamed
	Options            // the object of options of a stream
	AsksUsage          // whether a stream is to tell its usage
	Tier               // the service tier
	Place              // where, or how fast, a call is served, which has a price as a tier has
	CacheTTL           // how long the cache keeps a part of the prompt
	Part               // a part of the prompt that the bytes do not show: an earlier response
	Link               // such a part by its id or address: a picture, a file
	Data               // such a part as base64, which is no text
	Sound              // a part that is sound
	SoundOut           // one of the kinds of the reply; sound if it is audio
	MediaType          // of a part; sound if it is audio/…
	Item               // one of the items of the input: starts a new one
	ItemType           // its type
	ItemID             // its id
	Tool               // one of the tools: starts a new one
	ToolType           // its type
	ToolUses           // the most uses of it
	ToolKey            // a tool that its key names
	AddedTool          // the type of a tool that an item of the input adds
	Fallback           // a model that answers in place of the called one
	Agents             // whether the provider runs agents beside the call, with no bound
	AllUses            // the most uses of all tools together
	Prompt             // one of several prompts, or a token of the one: each prompt has its choices
	InBackground       // whether the call goes on when nobody reads its answer
	Search             // web search, with no bound of its own
	RemoteTools        // a server of tools, with no bound of their uses
	StoredPrompt       // a prompt of the provider's, which may have tools
	Guardrail          // a check of the provider's, by the length of the texts
)

// Request is the information about a call in its body.
type Request struct {
	Model              string
	MaxOutput, Choices int64 // 0: not said
	Stream             bool
	AsksUsage          bool  // a stream is to tell its usage
	Declines           Word  // what says that a stream is not to tell it
	OptionsAt          int64 // where the options of a stream begin, behind their brace; 0 without any
	Tier               string
	CacheHour, Sound   bool
	Background         bool             // it goes on when nobody reads its answer
	Parts              int64            // parts of the prompt whose tokens the text does not show
	Tokens             int64            // of the text, about
	Tools              map[string]int64 // that are not free, and the most uses of each; 0: no bound

	dialect *Dialect
	prompts int64
	place   string
	text    Text
	tool    tool // that is read
	item    item // that is read
	tools   tools
	allUses int64
}

// Word is a word of a body, such as false, and its opposite; without a Len it is
// absent.
type Word struct {
	At, Len int64
	Instead string
}

// mostPrompts is more than a call may have of prompts and of choices.
const mostPrompts = 1 << 20

// maxModel is the longest name of a model, in bytes.
const maxModel = 256

// Read returns the model, bounds and tools in a request's body and headers, and the approximate number of its
// text tokens. It fails for malformed JSON or a malformed value. The error, for the sender, names the path of
// that value.
func (d *Dialect) Read(body []byte, h http.Header) (*Request, error) {
	r := &Request{dialect: d}
	r.text.Add(body)
	for name, asked := range d.Asks {
		for _, value := range h.Values(name) {
			_ = r.recordValue(asked, jsonscan.Event{Kind: jsonscan.String, Text: []byte(value), Len: int64(len(value))})
		}
	}
	s := jsonscan.New(d.asks, jsonscan.Options{Capture: maxModel, Strict: true}, func(e jsonscan.Event) error {
		if err := r.recordValue(d.Request[e.Path].Asked, e); err != nil {
			return fmt.Errorf("%s %w", d.Request[e.Path].Path, err)
		}
		return nil
	})
	if _, err := s.Write(body); err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	r.setBounds()
	r.Tokens = r.text.Tokens()
	return r, nil
}

// recordValue records one value of the request in r, by its meaning; of repeated counts the largest holds. It
// fails for a value of the wrong type or length. A null counts as missing.
func (r *Request) recordValue(what Asked, e jsonscan.Event) (err error) {
	if e.Kind == jsonscan.Null {
		r.declineUsage(what, e, "null")
		return nil
	}
	switch what {
	case Model:
		r.Model, err = decodeText(e)
	case Tier:
		var is string
		if is, err = decodeText(e); err == nil {
			r.Tier = mergeTier(r.Tier, r.dialect.priceTier(is))
		}
	case Place:
		var is string
		if is, err = decodeText(e); err == nil {
			r.place = mergePlace(r.place, is)
		}
	case MaxOutput:
		err = raiseCount(&r.MaxOutput, e)
	case Choices:
		err = raiseCount(&r.Choices, e)
	case AllUses:
		err = raiseCount(&r.allUses, e)
	case Stream:
		r.Stream, err = decodeBool(e)
	case Prompt:
		if e.Kind == jsonscan.String || e.Kind == jsonscan.Array {
			r.prompts++
		}
	case InBackground:
		r.Background, err = decodeBool(e)
	case AsksUsage:
		if r.AsksUsage, err = decodeBool(e); !r.AsksUsage {
			r.declineUsage(what, e, "false")
		}
	case Options:
		if e.Kind == jsonscan.Object {
			r.OptionsAt = e.Offset + 1
		}
	default:
		err = r.recordPart(what, e)
	}
	return err
}

// declineUsage records in r.Declines the place of a word, null or false, that declines the usage of a stream,
// and its replacement. Other meanings do nothing.
func (r *Request) declineUsage(what Asked, e jsonscan.Event, word string) {
	switch what {
	case Options:
		r.Declines = Word{e.Offset, int64(len(word)), `{"include_usage":true}`}
	case AsksUsage:
		r.Declines = Word{e.Offset, int64(len(word)), "true"}
	}
}

// recordPart records a value about a part of the prompt in r: its caching, sound, data or item. It passes other
// values to recordTool and returns the error of that.
func (r *Request) recordPart(what Asked, e jsonscan.Event) error {
	if e.Kind == jsonscan.End {
		r.countPart(what)
		return nil
	}
	switch what {
	case CacheTTL:
		r.CacheHour = r.CacheHour || string(e.Text) != "5m" && string(e.Text) != "30m"
	case Data:
		r.addData(e)
	case Link:
		r.addLink(e)
	case Part:
		r.Parts++
	case Sound:
		r.Sound = true
	case SoundOut:
		r.Sound = r.Sound || strings.EqualFold(string(e.Text), "audio")
	case MediaType:
		r.Sound = r.Sound || strings.HasPrefix(string(e.Text), "audio/")
	case ItemType:
		r.item.kind = string(e.Text)
	case ItemID:
		r.item.id = string(e.Text)
	default:
		return r.recordTool(what, e)
	}
	return nil
}

// recordTool records a value of a tool, or of another feature with a fee, in r. A feature without a bound gets
// 0 uses, which means unbounded. It fails only for a malformed number of uses.
func (r *Request) recordTool(what Asked, e jsonscan.Event) error {
	switch what {
	case Tool:
		if e.Kind != jsonscan.Object {
			r.tools.addTool(Fee{Tool: unknown}, 0)
		}
	case ToolType:
		r.tool.kind = unknown
		if e.Kind == jsonscan.String {
			r.tool.kind = string(e.Text)
		}
	case ToolUses:
		return raiseCount(&r.tool.uses, e)
	case ToolKey:
		r.tools.addTool(toolFee(r.dialect.Tools, string(e.Key)), 0)
	case AddedTool:
		r.tools.addTool(toolFee(r.dialect.Tools, string(e.Text)), 0)
	case Fallback:
		if e.Kind == jsonscan.String || e.Kind == jsonscan.Object {
			r.tools.addTool(Fee{Tool: fallback}, 1)
		}
	case Agents:
		if e.Kind != jsonscan.False {
			r.tools.addTool(Fee{Tool: agents}, 0)
		}
	case Search:
		r.tools.addTool(Fee{Tool: searches}, 0)
	case RemoteTools:
		r.tools.addTool(Fee{Tool: remote}, 0)
	case StoredPrompt:
		r.Parts++
		r.tools.addTool(Fee{Tool: storedPrompt}, 1)
	case Guardrail:
		r.tools.addTool(Fee{Tool: guardrail}, 1)
	}
	return nil
}

// countPart adds a tool or input item to r once all its values are read, and clears it. A tool adds its fee and
// uses, an item that refers to an earlier Response one part of the prompt. Other items add nothing.
func (r *Request) countPart(what Asked) {
	switch what {
	case Tool:
		r.tools.addTool(toolFee(r.dialect.Tools, r.tool.kind), r.tool.uses)
		r.tool = tool{}
	case Item:
		if r.item.isReference() {
			r.Parts++
		}
		r.item = item{}
	}
}

// addData adds one to the prompt's parts for a part with its data in the body. It takes base64 data, which has
// no blanks, off the count of text. It ignores values that are not strings.
func (r *Request) addData(e jsonscan.Event) {
	if e.Kind != jsonscan.String {
		return
	}
	if !strings.ContainsAny(string(e.Text), " \n") {
		r.text.dropBase64(e.Len)
	}
	r.Parts++
}

// addLink adds one to the prompt's parts for a part given by a URL or an id. It takes the data in a "data:" URL
// off the count of text. It ignores values that are not strings.
func (r *Request) addLink(e jsonscan.Event) {
	if e.Kind != jsonscan.String {
		return
	}
	if strings.HasPrefix(string(e.Text), "data:") {
		r.text.dropBase64(e.Len)
	}
	r.Parts++
}

// setBounds sets in r the bounds that depend on the whole body: the choices of all prompts, the tier at its
// place, and tool uses.
func (r *Request) setBounds() {
	if r.prompts > 1 {
		r.Choices = min(max(1, r.Choices), mostPrompts) * min(r.prompts, mostPrompts)
	}
	r.Tier = tierAt(r.Tier, r.place)
	r.tools.setBounds(r.allUses)
	r.Tools = r.tools.uses
}

// AddSearches adds web searches to the request's tools, with 0 uses, which means unbounded.
func (r *Request) AddSearches() {
	r.tools.addTool(Fee{Tool: searches}, 0)
	r.tools.setBounds(0)
	r.Tools = r.tools.uses
}

// dropBase64 takes n bytes of base64 off the counts of bytes, as one sixth digits and signs and the rest
// letters.
func (t *Text) dropBase64(n int64) { // base64 is letters for the most part
	dense := min(n/6, t.dense)
	t.dense, t.letters = t.dense-dense, max(0, t.letters-(n-dense))
}

// decodeText returns the string of e. It fails if e is another type, empty, or longer than a model's name may
// be.
func decodeText(e jsonscan.Event) (string, error) {
	switch {
	case e.Kind != jsonscan.String:
		return "", fmt.Errorf("is no string")
	case len(e.Text) == 0:
		return "", fmt.Errorf("is empty")
	case e.Len > maxModel:
		return "", fmt.Errorf("is longer than %d bytes", maxModel)
	}
	return string(e.Text), nil
}

// decodeBool returns the boolean value of e. It fails if e is neither true nor false.
func decodeBool(e jsonscan.Event) (bool, error) {
	if e.Kind != jsonscan.True && e.Kind != jsonscan.False {
		return false, fmt.Errorf("is neither true nor false")
	}
	return e.Kind == jsonscan.True, nil
}

// raiseCount sets *to to the number of e if that is larger. It fails unless e is a whole number from 0 to 2^53
// in plain digits.
func raiseCount(to *int64, e jsonscan.Event) error {
	n, err := e.Int()
	if err != nil {
		return err
	}
	*to = max(*to, n)
	return nil
}
