package client

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
)

// A daemon that turns a caller away closes the connection before the caller has written
// anything. The caller hears why, or that nothing was sent.
func TestRefusalBeforeTheRequest(t *testing.T) {
	for name, test := range map[string]struct {
		says   string
		refuse func(error) bool
	}{
		"it says why": {
			"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n" + `{"code":"too_many_connections"}`,
			turnedAway,
		},
		"it says nothing": {"", isUnsent},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), "s")
			listener, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			c, err := New(Options{Socket: path})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, body := range []string{"", strings.Repeat("x", 1<<20)} {
				if err := c.Reach(t.Context()); err != nil {
					t.Fatal(err)
				}
				conn, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.WriteString(conn, test.says)
				if err := errors.Join(err, conn.Close()); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Submit(t.Context(), api.JobRequest{Command: []string{body}}); !test.refuse(err) {
					t.Errorf("refused with %v", err)
				}
			}
		})
	}
}
