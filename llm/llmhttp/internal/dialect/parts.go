package dialect

import "github.com/dynalimit/dynalimit/llm/llmhttp/internal/jsonscan"

// anywhere are the parts of a prompt that its text does not show, and the bounds of its caching, at any
// depth: agents send pictures and files in the results of their tools. An argument of a function that
// looks like one is overestimated.
var anywhere = []Ask{
	{"**.image_url", Link},
	{"**.image_url.url", Link},
	{"**.video_url", Link},
	{"**.video_url.url", Link},
	{"**.audio_url", Link},
	{"**.audio_url.url", Link},
	{"**.document_url", Link},
	{"**.document_url.url", Link},
	{"**.file_url", Link},
	{"**.file_id|fileId", Link},
	{"**.fileData|file_data", Data},
	{"**.fileData|file_data.fileUri|file_uri", Link},
	{"**.fileData|file_data.mimeType|mime_type", MediaType},
	{"**.inlineData|inline_data.data", Data},
	{"**.inlineData|inline_data.mimeType|mime_type", MediaType},
	{"**.input_audio", Sound},
	{"**.input_audio.data", Data},
	{"**.source.data", Data},
	{"**.source.bytes", Data},
	{"**.source.url", Link},
	{"**.source.s3Location.uri", Link},
	{"**.s3Location.uri", Link},
	{"**.audio.source", Sound},
	{"**.audio.source.bytes", Data},
	{"**.audio.source.s3Location.uri", Link},
	{"**.cachedContent|cached_content", Link},
	{"**.cache_control.ttl", CacheTTL},
	{"**.cachePoint.ttl", CacheTTL},
	{"**.prompt_cache_breakpoint.ttl", CacheTTL},
}

// compileDialect adds the common paths of prompts to d's request table and, for answers that may be arrays, the
// paths in an array. It compiles both tables into d and returns d. It panics for a malformed path.
func compileDialect(d *Dialect) *Dialect {
	d.Request = append(d.Request[:len(d.Request):len(d.Request)], anywhere...)
	asks := make([]string, len(d.Request))
	for i, a := range d.Request {
		asks[i] = a.Path
	}
	d.asks = jsonscan.Compile(asks...)
	if d.Array { // what an event says, each element of the array says
		for _, t := range d.Answer[:len(d.Answer):len(d.Answer)] {
			t.Path = "[]." + t.Path
			d.Answer = append(d.Answer, t)
		}
	}
	tells := make([]string, len(d.Answer))
	for i, t := range d.Answer {
		tells[i] = t.Path
	}
	d.tells = jsonscan.Compile(tells...)
	return d
}
