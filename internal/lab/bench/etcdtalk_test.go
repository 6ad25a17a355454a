package bench

import (
	"bytes"
	"encoding/binary"
)

// etcdTalk reads gRPC: messages in the DATA frames of HTTP/2, with a stream for each call. A request is a message from
// the client. Most calls have one; on the streams for watches and renewals each message is a request. HTTP/2's own
// frames, such as pings, are not counted.
type etcdTalk struct {
	*metered
	out, in []byte // the beginning of a frame that is not complete
	streams map[uint32]*etcdStream
}

type etcdStream struct {
	kind     etcdKind
	out, in  []byte // the beginning of a message that is not complete
	asked    uint64 // how many watches were asked for
	creating uint64 // the first of them without a confirmation
}

// etcdKind is a kind of stream, known by the messages that the client sends on it.
type etcdKind int

const (
	unknownKind etcdKind = iota
	callKind             // ends when it is answered
	renewalKind          // each message is answered by one
	watchKind            // a message that asks for a watch is answered by one
)

// Of HTTP/2.
const (
	http2Preface   = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHeader    = 9
	frameData      = 0
	frameHeaders   = 1
	frameRSTStream = 3
	flagEndStream  = 1
)

func newEtcdTalk(m *metered) *etcdTalk {
	return &etcdTalk{metered: m, streams: map[uint32]*etcdStream{}}
}

func (t *etcdTalk) sent(p []byte) {
	t.out = append(t.out, p...)
	if t.out[0] == http2Preface[0] { // no frame is that long
		if len(t.out) < len(http2Preface) {
			return
		}
		t.out = bytes.TrimPrefix(t.out, []byte(http2Preface))
	}
	t.out = cutFrames(t.out, func(kind, flags byte, id uint32, payload []byte) {
		switch kind {
		case frameHeaders:
			t.streams[id] = &etcdStream{}
		case frameData:
			if s := t.streams[id]; s != nil {
				s.out = cutMessages(append(s.out, payload...), func(message []byte) {
					t.request(id, s, message, flags&flagEndStream != 0)
				})
			}
		case frameRSTStream:
			t.end(id)
		}
	})
}

// Fields of a WatchRequest and of a WatchResponse.
const (
	watchCreate  = 1
	watchCreated = 3
	watchEvents  = 11
)

// request counts a request: the last one of its stream, or one of several.
func (t *etcdTalk) request(id uint32, s *etcdStream, message []byte, last bool) {
	const bytesType = 2 // a renewal begins with a number
	switch {
	case last:
		s.kind = callKind
		t.asked(uint64(id))
	case len(message) > 0 && message[0]&7 != bytesType:
		s.kind = renewalKind
		t.asked(uint64(id))
	case hasField(message, watchCreate):
		s.kind = watchKind
		t.asked(uint64(id)<<32 | s.asked)
		s.asked++
	default: // a watch is cancelled, or progress asked for
		s.kind = watchKind
		t.noted()
	}
}

func (t *etcdTalk) received(p []byte) {
	t.in = cutFrames(append(t.in, p...), func(kind, flags byte, id uint32, payload []byte) {
		s := t.streams[id]
		if s == nil {
			return
		}
		if kind == frameData && s.kind != callKind {
			s.in = cutMessages(append(s.in, payload...), func(message []byte) { t.reply(id, s, message) })
		}
		if kind == frameRSTStream || (kind == frameData || kind == frameHeaders) && flags&flagEndStream != 0 {
			t.end(id)
		}
	})
}

// reply handles a message from the server on a stream that goes on.
func (t *etcdTalk) reply(id uint32, s *etcdStream, message []byte) {
	switch {
	case s.kind == renewalKind:
		t.answered(uint64(id))
	case hasField(message, watchCreated):
		t.answered(uint64(id)<<32 | s.creating)
		s.creating++
	case hasField(message, watchEvents):
		t.notified()
	}
}

// end handles the end of a stream, which answers the requests on it.
func (t *etcdTalk) end(id uint32) {
	if s := t.streams[id]; s != nil {
		t.answered(uint64(id))
		for ; s.creating < s.asked; s.creating++ {
			t.answered(uint64(id)<<32 | s.creating)
		}
		delete(t.streams, id)
	}
}

// cutFrames calls each for every complete frame of HTTP/2, and returns the rest.
func cutFrames(buffer []byte, each func(kind, flags byte, stream uint32, payload []byte)) []byte {
	for len(buffer) >= frameHeader {
		end := frameHeader + int(binary.BigEndian.Uint32(buffer)>>8)
		if len(buffer) < end {
			break
		}
		each(buffer[3], buffer[4], binary.BigEndian.Uint32(buffer[5:]), buffer[frameHeader:end])
		buffer = buffer[end:]
	}
	return buffer
}

// cutMessages calls each for every complete message of gRPC, and returns the rest.
func cutMessages(buffer []byte, each func(message []byte)) []byte {
	const header = 5 // a flag for compression, which is not used, and the length
	for len(buffer) >= header {
		end := header + int(binary.BigEndian.Uint32(buffer[1:]))
		if len(buffer) < end {
			break
		}
		each(buffer[header:end])
		buffer = buffer[end:]
	}
	return buffer
}

// hasField reports whether an encoded protocol buffer has the field with this number.
func hasField(message []byte, number uint64) bool {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if tag>>3 == number {
			return true
		}
		value, m := binary.Uvarint(message[n:])
		if tag&7 == 2 { // the value is the length of what follows
			m += int(value)
		}
		message = message[n+m:]
	}
	return false
}
