package httpapi

import (
	"io"
	"maps"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
)

// formats returns the formats of bodies. They are those of the framework, and write what
// is asked for most in the way of the lease stream: a list of 10,000 leases takes an
// eighth of the time.
func formats() map[string]huma.Format {
	all := maps.Clone(huma.DefaultFormats)
	for name, f := range all {
		slow, read := f.Marshal, f.Unmarshal
		f.Unmarshal = func(text []byte, into any) error {
			if err := bounded(text, maxBody); err != nil {
				return err
			}
			return read(text, into)
		}
		f.Marshal = func(to io.Writer, v any) (err error) {
			w := &answered{Writer: to}
			if long, is := v.(interface{ write(w io.Writer) error }); is {
				err = long.write(w)
			} else if body := quickly(v); body != nil {
				_, err = w.Write(append(body, '\n'))
			} else {
				err = slow(w, v)
			}
			if w.cut { // the framework would take it for a mistake of ours
				return nil
			}
			return err
		}
		all[name] = f
	}
	return all
}

// answered writes an answer, and knows whether the caller went away before its end.
type answered struct {
	io.Writer
	cut bool
}

func (a *answered) Write(b []byte) (int, error) {
	n, err := a.Writer.Write(b)
	a.cut = a.cut || err != nil
	return n, err
}

// leaseRoom is room enough for a usual lease as JSON, and statusRoom for a usual device.
const (
	leaseRoom  = 384
	statusRoom = 2 << 10
)

// quickly returns an answer as JSON, or nil if only encoding/json writes it.
func quickly(v any) []byte {
	switch v := v.(type) {
	case api.Leases:
		return (*wire.LeasesBody)(&v).Append(make([]byte, 0, leaseRoom*(1+len(v.Leases)+len(v.Waiting))))
	case api.Lease:
		return (*wire.LeaseBody)(&v).Append(make([]byte, 0, leaseRoom))
	case api.Ended:
		return (*wire.EndedBody)(&v).Append(make([]byte, 0, leaseRoom))
	case api.StatusAll:
		return (*wire.StatusBody)(&v).Append(make([]byte, 0, statusRoom*(1+len(v.GPUs))))
	case api.Available:
		return (*wire.AvailableBody)(&v).Append(make([]byte, 0, leaseRoom*(1+len(v.GPUs))))
	}
	return nil
}
