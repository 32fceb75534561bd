package client

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

// heardConn is a connection to a daemon that may turn it away: such a daemon answers and closes
// the connection without reading. An HTTP transport loses an answer that comes before its
// request, or whose request could not be written. heardConn shows it the answer afterwards,
// as if the request had been written.
type heardConn struct {
	net.Conn
	once    sync.Once
	written chan struct{} // closed after the first write, and by Close
	unsent  error         // why nothing could be written
}

func newHeardConn(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return &heardConn{Conn: c, written: make(chan struct{})}, nil
}

func (c *heardConn) Write(b []byte) (int, error) {
	if c.unsent != nil {
		return len(b), nil
	}
	n, err := c.Conn.Write(b)
	c.once.Do(func() {
		if n == 0 && errors.Is(err, syscall.EPIPE) {
			c.unsent, n, err = err, len(b), nil
		}
		close(c.written)
	})
	return n, err
}

func (c *heardConn) Read(b []byte) (int, error) {
	<-c.written
	n, err := c.Conn.Read(b)
	if n == 0 && err != nil && c.unsent != nil {
		err = &unsentError{c.unsent}
	}
	return n, err
}

func (c *heardConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.written) })
	return err
}
