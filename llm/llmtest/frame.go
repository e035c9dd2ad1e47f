package llmtest

import (
	"encoding/binary"
	"hash/crc32"
)

// encodeFrame returns an event as a message of application/vnd.amazon.eventstream, with headers and checksums
// around the payload.
func encodeFrame(e event, payload []byte) []byte {
	kind := "event"
	if e.exception {
		kind = "exception"
	}
	var headers []byte
	for _, h := range [][2]string{{":" + kind + "-type", e.name}, {":content-type", "application/json"}, {":message-type", kind}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = append(headers, 7) // a string
		headers = append(binary.BigEndian.AppendUint16(headers, uint16(len(h[1]))), h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}
