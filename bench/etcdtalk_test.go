package bench

import (
	"bytes"
	"encoding/binary"
)

// etcdTalk reads gRPC: messages in the DATA frames of HTTP/2, those of one call on a stream of its own. A request is a
// message that the client sends: a call has one of them, as a rule; on the streams for watches and for renewals each
// message is one. Frames of HTTP/2's own, such as its pings, count nothing.
type etcdTalk struct {
	*metered
	out, in []byte // what is left over
	streams map[uint32]*etcdStream
}

type etcdStream struct {
	kind     etcdKind
	out, in  []byte // what is left over of messages
	asked    uint64 // how many watches
	creating uint64 // the first of them that has not been confirmed
}

// etcdKind is a kind of stream. The messages that are sent on them tell.
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

// request notes a request: the last one of its stream, or one of several.
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
	default: // a watch is taken back, or progress asked for
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

// reply notes a message on a stream that goes on.
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

// end notes that a stream is over, and what was asked on it answered.
func (t *etcdTalk) end(id uint32) {
	if s := t.streams[id]; s != nil {
		t.answered(uint64(id))
		for ; s.creating < s.asked; s.creating++ {
			t.answered(uint64(id)<<32 | s.creating)
		}
		delete(t.streams, id)
	}
}

// cutFrames calls each with the frames of HTTP/2 that are complete, and returns what is left.
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

// cutMessages calls each with the messages of gRPC that are complete, and returns what is left.
func cutMessages(buffer []byte, each func(message []byte)) []byte {
	const header = 5 // whether it is compressed, which it is not, and its length
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

// hasField reports whether a message in the form of protocol buffers has a field of the number.
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
