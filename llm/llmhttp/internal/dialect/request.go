package dialect

import (
	"fmt"
	"strings"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/jsonscan"
)

// Asked is what a value of a request means.
type Asked uint8

// What there is in requests.
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
	Part               // a part of the prompt that the bytes do not show: a picture, a file, an id
	Data               // such a part as base64, which is no text
	Sound              // a part that is sound
	MediaType          // of a part; sound if it is audio/…
	Tool               // one of the tools: starts a new one
	ToolType           // its type
	ToolUses           // the most uses of it
	AllUses            // the most uses of all tools together
	Prompt             // one of several prompts, or a token of the one: each prompt has its choices
	InBackground       // whether the call goes on when nobody reads its answer
	Search             // web search, with no bound of its own
)

// Request is what a request's body says of its call.
type Request struct {
	Model              string
	MaxOutput, Choices int64 // 0: not said
	Stream             bool
	AsksUsage          bool  // a stream is to tell its usage
	Declines           Word  // what says that a stream is not to tell it
	OptionsAt          int64 // where the options of a stream begin, behind their brace; 0 without any
	Tier               string
	CacheHour, Sound   bool
	Background         bool  // it goes on when nobody reads its answer
	Parts              int64 // parts of the prompt whose tokens the text does not show
	Tokens             int64 // of the text, about
	Tools              map[string]int64

	prompts int64
	place   string
	text    Text
	tool    string // the type of the one that is read
	uses    int64
	allUses int64
}

// Word is a word of a body, such as false, and what stands for it if it is to say the opposite; no
// Len: there is none.
type Word struct {
	At, Len int64
	Instead string
}

// mostPrompts is more than a call may have of prompts and of choices.
const mostPrompts = 1 << 20

// maxModel is the longest name of a model, in bytes.
const maxModel = 256

// Read reads a request's body. Its error is for whoever sent it.
func (d *Dialect) Read(body []byte) (*Request, error) {
	r := &Request{}
	r.text.Add(body)
	s := jsonscan.New(d.asks, jsonscan.Options{Capture: maxModel, Strict: true}, func(e jsonscan.Event) error {
		if err := r.take(d.Request[e.Path].Asked, e); err != nil {
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
	r.bound()
	r.Tokens = r.text.Tokens()
	return r, nil
}

// take takes one value.
func (r *Request) take(what Asked, e jsonscan.Event) (err error) {
	if e.Kind == jsonscan.Null {
		r.decline(what, e, "null")
		return nil
	}
	switch what {
	case Model:
		r.Model, err = text(e)
	case Tier:
		r.Tier, err = text(e)
	case Place:
		var is string
		if is, err = text(e); err == nil {
			r.place = placeOf(r.place, is)
		}
	case MaxOutput:
		err = most(&r.MaxOutput, e)
	case Choices:
		err = most(&r.Choices, e)
	case AllUses:
		err = most(&r.allUses, e)
	case Stream:
		r.Stream, err = truth(e)
	case Prompt:
		if e.Kind == jsonscan.String || e.Kind == jsonscan.Array {
			r.prompts++
		}
	case InBackground:
		r.Background, err = truth(e)
	case AsksUsage:
		if r.AsksUsage, err = truth(e); !r.AsksUsage {
			r.decline(what, e, "false")
		}
	case Options:
		if e.Kind == jsonscan.Object {
			r.OptionsAt = e.Offset + 1
		}
	default:
		err = r.takePart(what, e)
	}
	return err
}

// decline notes a word that says no to the usage of a stream.
func (r *Request) decline(what Asked, e jsonscan.Event, word string) {
	switch what {
	case Options:
		r.Declines = Word{e.Offset, int64(len(word)), `{"include_usage":true}`}
	case AsksUsage:
		r.Declines = Word{e.Offset, int64(len(word)), "true"}
	}
}

// takePart takes a value of a part of the prompt, or of a tool.
func (r *Request) takePart(what Asked, e jsonscan.Event) error {
	if e.Kind == jsonscan.End {
		if what == Tool {
			r.endTool()
		}
		return nil
	}
	switch what {
	case CacheTTL:
		r.CacheHour = r.CacheHour || string(e.Text) == "1h"
	case Data:
		if !strings.ContainsAny(string(e.Text), " \n") { // as text has, and base64 not
			r.text.drop(e.Len)
		}
		r.Parts++
	case Part:
		if e.Kind == jsonscan.String && strings.HasPrefix(string(e.Text), "data:") {
			r.text.drop(e.Len)
		}
		r.Parts++
	case Sound:
		r.Sound = true
	case MediaType:
		r.Sound = r.Sound || strings.HasPrefix(string(e.Text), "audio/")
	case Search:
		r.tool = "web_search"
		r.endTool()
	case ToolType:
		r.tool = string(e.Text)
	case ToolUses:
		return most(&r.uses, e)
	}
	return nil
}

// endTool notes a tool of the provider's own, by the name that prices have.
func (r *Request) endTool() {
	if strings.HasPrefix(r.tool, "web_search") {
		if r.Tools == nil {
			r.Tools = map[string]int64{}
		}
		r.Tools["web_search"] += r.uses
	}
	r.tool, r.uses = "", 0
}

// bound bounds what has no bound of its own: the replies to all prompts, the uses of tools, and the
// price at a place.
func (r *Request) bound() {
	if r.prompts > 1 {
		r.Choices = min(max(1, r.Choices), mostPrompts) * min(r.prompts, mostPrompts)
	}
	r.Tier = tierAt(r.Tier, r.place)
	for name, uses := range r.Tools {
		if uses == 0 {
			r.Tools[name] = r.allUses
		}
	}
}

// drop takes bytes off that are no text.
func (t *Text) drop(n int64) { // base64 is letters for the most part
	dense := min(n/6, t.dense)
	t.dense, t.letters = t.dense-dense, max(0, t.letters-(n-dense))
}

func text(e jsonscan.Event) (string, error) {
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

func truth(e jsonscan.Event) (bool, error) {
	if e.Kind != jsonscan.True && e.Kind != jsonscan.False {
		return false, fmt.Errorf("is neither true nor false")
	}
	return e.Kind == jsonscan.True, nil
}

func most(to *int64, e jsonscan.Event) error {
	n, err := e.Int()
	if err != nil {
		return err
	}
	*to = max(*to, n)
	return nil
}
