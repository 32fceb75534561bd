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
		f.Marshal = func(w io.Writer, v any) error {
			if long, is := v.(interface{ write(w io.Writer) error }); is {
				return long.write(w)
			}
			body := quickly(v)
			if body == nil {
				return slow(w, v)
			}
			_, err := w.Write(append(body, '\n'))
			return err
		}
		all[name] = f
	}
	return all
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
