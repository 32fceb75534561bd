package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"time"
)

// FuzzLink hands a link whatever another machine may send. The link ends, and a stream
// has taken no more than its window.
func FuzzLink(f *testing.F) {
	frame := func(kind byte, stream uint32, payload string) []byte {
		head := binary.BigEndian.AppendUint32([]byte{kind}, stream)
		return append(binary.BigEndian.AppendUint32(head, uint32(len(payload))), payload...)
	}
	f.Add(bytes.Join([][]byte{frame(frameMessage, 0, `{"type":"ready"}`), frame(frameData, 20, "bytes"), frame(frameEnd, 20, "")}, nil))
	f.Add(bytes.Join([][]byte{frame(framePing, 0, "12345678"), frame(framePong, 0, "12345678"), frame(frameCredit, 20, "\xff\xff\xff\xff")}, nil))
	f.Add(frame(framePacked, 20, "(\xb5/\xfd"))
	f.Fuzz(func(t *testing.T, said []byte) {
		messages := 0
		l := New(bytes.NewReader(said), io.Discard, time.Hour, func([]byte) error { messages++; return nil }, func() {})
		s := l.Open(20)
		<-l.Done()
		if l.Err() == nil || messages*headBytes > len(said) {
			t.Errorf("%v after %d messages", l.Err(), messages)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting > window || s.credit > window {
			t.Errorf("%d bytes wait, and the credit is %d", s.waiting, s.credit)
		}
	})
}
