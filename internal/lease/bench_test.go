package lease

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// full is a book with this many leases on eight devices.
func full(leases int) *Book {
	b := New()
	for i := range 8 {
		b.SetCapacity(dev(i), Capacity{Total: 80 << 10, MaxPipelines: 1 << 15, Usable: 1 << 15})
	}
	for i := range leases {
		r := ask("old-" + strconv.Itoa(i))
		r.Holder.User = "user" + strconv.Itoa(i%10)
		if _, err := b.Apply(Grant{Lease: r.Lease(dev(i % 8))}, noon); err != nil {
			panic(err)
		}
	}
	return b
}

func ask(id string) *Request {
	return &Request{
		ID: id, Holder: Holder{User: "alice", UID: 1000, Service: "render", Name: "python", PID: 4711, Start: 123456, Boot: "0b8a8c1e"},
		By:   access.Actor{User: "alice", UID: 1000, Door: access.Socket, Role: access.User},
		GPUs: 1, Memory: 1, Slots: 1, Binding: ByTTL, TTL: time.Minute, Requested: noon, Deadline: noon.Add(time.Minute),
	}
}

// BenchmarkGrantRelease is what an acquire and a release cost the book,
// together with the encoding of both entries.
func BenchmarkGrantRelease(b *testing.B) {
	for _, leases := range []int{0, 1000, 100000} {
		b.Run(fmt.Sprintf("leases=%d", leases), func(b *testing.B) {
			book, r := full(leases), ask("new")
			by := actor(r.Holder)
			var line []byte
			var written stored.Entry // the ledger keeps it, and the lease in it
			var used stored.Lease
			now := noon
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				e, err := book.Apply(Grant{Lease: r.Lease("GPU-3")}, now)
				if err != nil {
					b.Fatal(err)
				}
				written = EntryIn(&used, &e)
				line = AppendEntry(line[:0], &written)
				if e, err = book.Apply(Release{Key: r.Key(), By: by}, now); err != nil {
					b.Fatal(err)
				}
				written = EntryIn(&used, &e)
				line = AppendEntry(line, &written)
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	book, r := full(1000), ask("new")
	old := only(book, "old-7")
	by := actor(r.Holder)
	b.Run("grant+release", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := book.Apply(Grant{Lease: r.Lease("GPU-3")}, noon); err != nil {
				b.Fatal(err)
			}
			if _, err := book.Apply(Release{Key: r.Key(), By: by}, noon); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("renew", func(b *testing.B) {
		now := noon
		b.ReportAllocs()
		for b.Loop() {
			now = now.Add(time.Millisecond)
			if _, err := book.Apply(Renew{Key: old, By: access.Daemon()}, now); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("observe", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			book.Observe(old, "GPU-7", 5)
		}
	})
}

// BenchmarkQueue is a request that comes, is sorted in among others, and goes.
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{64, 1000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			book := full(1000)
			for i := range n {
				r := ask("w-" + strconv.Itoa(i))
				r.Holder.User = "user" + strconv.Itoa(i%10)
				if _, err := book.Apply(Ask{r}, noon); err != nil {
					b.Fatal(err)
				}
			}
			r := ask("new")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := book.Apply(Ask{r}, noon); err != nil {
					b.Fatal(err)
				}
				book.Waiting()
				if _, err := book.Apply(Withdraw{Key: r.Key(), By: access.Daemon()}, noon); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPassing is one question behind 16 requests of different sizes, on a
// device with eight leases.
func BenchmarkPassing(b *testing.B) {
	book := full(64)
	var ahead []*Request
	for i := range 16 {
		r := ask("w-" + strconv.Itoa(i))
		r.Memory += 1 << (i % 12)
		ahead = append(ahead, r)
	}
	var p Passing
	b.ReportAllocs()
	for b.Loop() {
		book.Passing(&p, dev(0))
		for _, r := range ahead[1:] {
			p.Add(r, r.Claim())
		}
		p.Allows(ahead[0].Load())
	}
}

func BenchmarkDecodeEntry(b *testing.B) {
	e, err := full(0).Apply(Grant{Lease: ask("new").Lease("GPU-3")}, noon)
	if err != nil {
		b.Fatal(err)
	}
	r := EntryOf(&e)
	line := AppendEntry(nil, &r)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := stored.Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}
