package lifeline

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// frame is what the program says, Add, Drop or Guarded, and what the lifeline answers, Done or Refused.
type frame struct {
	Add     *entry `json:",omitempty"`
	Drop    string `json:",omitempty"` // the id of a session that has ended, or that nothing is known of
	Guarded bool   `json:",omitempty"` // other processes have the pipe, which guard the program's work
	Done    string `json:",omitempty"` // the id of the session that was added or dropped
	Refused string `json:",omitempty"` // the id of the session that was not added
	Why     string `json:",omitempty"`
}

// entry is a session.
type entry struct {
	ID       string
	Handover []byte  // what the store's package needs to end the session, besides the id
	Service  Service // of the session
}

// maxFrame is the longest frame: certificates are some KiB long.
const maxFrame = 256 << 10

func writeFrame(w io.Writer, f frame) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("a frame of %d bytes is too long", len(body))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func readFrame(r *bufio.Reader) (f frame, err error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return f, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrame {
		return f, fmt.Errorf("a frame of %d bytes is too long", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return f, err
	}
	return f, json.Unmarshal(body, &f)
}
