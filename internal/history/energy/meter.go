package energy

import (
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Meter accounts for the energy of one device. The zero value has measured nothing yet.
// It can be written as JSON and read back to go on after a restart.
//
// None of its sums ever decreases. If the counter of the driver shows that Meter booked
// too much, Meter books nothing until that is made up for.
type Meter struct {
	Total  Amount `json:"total_uj"`
	Idle   Amount `json:"idle_uj"`
	Others Amount `json:"others_uj"`
	Leases Amount `json:"leases_uj"` // of all leases, including those that have ended

	Since      time.Time `json:"since"`              // time of the first measurement
	Unmeasured float64   `json:"unmeasured_seconds"` // time since then without a measurement
	Counted    bool      `json:"counted"`            // the driver counts energy

	Baseline Baseline `json:"baseline"`

	Last    point      `json:"last"`
	Counter comparison `json:"counter"`
}

// point is a moment up to which energy is booked.
type point struct {
	At     time.Time          `json:"at"`
	Power  gpu.Opt[gpu.Watts] `json:"power_watts,omitzero"`
	Shares Shares             `json:"shares,omitempty"`
}

// comparison compares the booked energy with the counter of the driver, from one reading
// of the counter to the next.
type comparison struct {
	Known   bool             `json:"known"`
	Joules  float64          `json:"joules"`           // the last reading
	At      time.Time        `json:"at"`               // when it was read
	Seconds float64          `json:"seconds"`          // since then
	Booked  map[Party]Amount `json:"booked,omitempty"` // since then
	Ahead   Amount           `json:"ahead_uj"`         // energy booked too much by then
	Owed    Amount           `json:"owed_uj"`          // rest of Ahead that is not made up for
	Dark    float64          `json:"dark_seconds"`     // since then, without a power reading
	Unseen  Shares           `json:"unseen,omitempty"` // parties on the device meanwhile, in seconds
}

// Reading holds the measurements of a device at one moment.
type Reading struct {
	At    time.Time
	Power gpu.Opt[gpu.Watts]
	Most  gpu.Watts // power limit; 0 if not known

	Counter   gpu.Opt[gpu.Joules] // of the driver
	CounterAt time.Time           // when it was read; many readings may share it

	Shares Shares        // parties on the device; may be empty
	Gap    time.Duration // readings further apart leave a gap
}

// Booking is the energy that leases used, by fence.
type Booking map[uint64]Amount

// Observe records a reading and returns the energy that leases used since the last one.
func (m *Meter) Observe(r Reading) Booking {
	r.Shares = r.Shares.clean()
	next := point{At: r.At, Power: plausible(r.Power, r.Most), Shares: r.Shares}
	booking := Booking{}
	switch elapsed := r.At.Sub(m.Last.At); {
	case m.Last.At.IsZero():
		m.Since = r.At
	case elapsed <= 0 && -elapsed <= r.Gap: // a lease ended after this was measured, so everything up to then is booked
		return booking
	case elapsed <= 0: // the clock was set back, so the time that has passed is not known
		m.Baseline.pause()
		m.forgetCounter()
	default:
		gap := elapsed > r.Gap
		shares := mean(m.Last.Shares, r.Shares)
		if gap {
			shares = throughout(m.Last.Shares, r.Shares)
		}
		end := next.Power
		if gap || !m.Last.Power.Known() {
			end = gpu.Opt[gpu.Watts]{}
		}
		if joules, fresh := m.fresh(r); fresh {
			at := r.CounterAt
			if at.After(r.At) || !at.After(m.Last.At) {
				at = r.At
			}
			m.advance(at, between(m.Last, point{At: r.At, Power: end}, at), shares, r.Most, booking)
			m.settle(joules, r.CounterAt, r.Most, booking)
		}
		m.advance(r.At, end, shares, r.Most, booking)
	}
	if joules, fresh := m.fresh(r); fresh {
		m.begin(joules, r.CounterAt)
	}
	m.Last = next
	return booking
}

// Leave books the energy up to the end of a lease, and takes the lease off the device. It
// assumes that the device has drawn the same power since the last reading.
func (m *Meter) Leave(fence uint64, at time.Time, longest time.Duration) Booking {
	booking := Booking{}
	party := Party(fence)
	if elapsed := at.Sub(m.Last.At); elapsed > 0 && elapsed <= longest && m.Last.Power.Known() {
		m.advance(at, m.Last.Power, m.Last.Shares, 0, booking)
	}
	delete(m.Last.Shares, party)
	if late, any := m.Counter.Booked[party]; any { // later corrections by the counter cannot go to this lease any more
		delete(m.Counter.Booked, party)
		m.Counter.Booked[Others] += late
	}
	if late, any := m.Counter.Unseen[party]; any {
		delete(m.Counter.Unseen, party)
		m.Counter.Unseen[Others] += late
	}
	return booking
}

// mostPower is more than any device draws.
const mostPower = gpu.Watts(5000)

// plausible drops a power that no device draws: a broken sensor reports 0, or something
// enormous.
func plausible(power gpu.Opt[gpu.Watts], most gpu.Watts) gpu.Opt[gpu.Watts] {
	limit := mostPower
	if most > 0 {
		limit = min(limit, 2*most)
	}
	if w, known := power.Get(); !known || !(w > 0 && w <= limit) {
		return gpu.Opt[gpu.Watts]{}
	}
	return power
}

// between returns the power at a moment between two points. It is absent if the power at
// one of them is not known.
func between(a, b point, at time.Time) gpu.Opt[gpu.Watts] {
	from, known := a.Power.Get()
	to, known2 := b.Power.Get()
	if !known || !known2 {
		return gpu.Opt[gpu.Watts]{}
	}
	part := at.Sub(a.At).Seconds() / b.At.Sub(a.At).Seconds()
	return gpu.Some(from + gpu.Watts(part)*(to-from))
}

// advance books from the last point to another one. It does not change the shares of the
// last point.
func (m *Meter) advance(to time.Time, power gpu.Opt[gpu.Watts], shares Shares, most gpu.Watts, booking Booking) {
	seconds := to.Sub(m.Last.At).Seconds()
	if seconds <= 0 {
		return
	}
	start, known := m.Last.Power.Get()
	end, known2 := power.Get()
	m.Last.At, m.Last.Power = to, power
	m.Counter.Seconds += seconds
	if !known || !known2 {
		m.pass(seconds, shares)
		return
	}
	watts := (start + end) / 2
	m.Baseline.learn(watts, seconds, len(shares) == 0, most)
	amount := Of(gpu.Joules(float64(watts) * seconds))
	withheld := min(amount, m.Counter.Owed)
	m.Counter.Owed -= withheld
	m.book(amount-withheld, seconds, shares, booking)
}

// pass records time without a power reading.
func (m *Meter) pass(seconds float64, shares Shares) {
	m.Baseline.pause()
	if !m.Counter.Known {
		m.Unmeasured += seconds
		return
	}
	m.Counter.Dark += seconds
	if len(shares) == 0 {
		shares = Shares{Idle: 1}
	}
	if m.Counter.Unseen == nil {
		m.Counter.Unseen = Shares{}
	}
	for p, share := range shares {
		m.Counter.Unseen[p] += share * seconds
	}
}

// book divides an amount: Idle gets what the idle device draws, and the parties on the
// device get the rest.
func (m *Meter) book(amount Amount, seconds float64, shares Shares, booking Booking) {
	idle := min(amount, Of(gpu.Joules(float64(m.Baseline.Watts)*seconds)))
	m.enter(Idle, idle, booking)
	for party, part := range split(amount-idle, shares) {
		m.enter(party, part, booking)
	}
}

// enter adds an amount to a party.
func (m *Meter) enter(party Party, amount Amount, booking Booking) {
	if amount <= 0 || m.Total > Of(mostJoules)-amount {
		return
	}
	m.Total += amount
	switch party {
	case Idle:
		m.Idle += amount
	case Others:
		m.Others += amount
	default:
		m.Leases += amount
		booking[uint64(party)] += amount
	}
	if m.Counter.Known {
		if m.Counter.Booked == nil {
			m.Counter.Booked = map[Party]Amount{}
		}
		m.Counter.Booked[party] += amount
	}
}

// fresh returns the reading of the counter, and false unless it is new.
func (m *Meter) fresh(r Reading) (joules float64, fresh bool) {
	value, known := r.Counter.Get()
	joules = float64(value)
	if !known || !(joules >= 0 && joules <= mostJoules) {
		return 0, false
	}
	return joules, !m.Counter.Known || !r.CounterAt.Equal(m.Counter.At)
}

// begin starts to compare from a reading of the counter.
func (m *Meter) begin(joules float64, at time.Time) {
	m.Counter = comparison{Known: true, Joules: joules, At: at, Ahead: m.Counter.Owed, Owed: m.Counter.Owed}
	m.Counted = true
}

// forgetCounter stops comparing with the counter until the next reading.
func (m *Meter) forgetCounter() {
	m.Unmeasured += m.Counter.Dark
	m.Counter = comparison{}
}

// settle makes the booked energy equal to what the driver has counted since its last
// reading. If the counter went back, or further than the device can draw, it was reset,
// and settle starts from the new reading.
func (m *Meter) settle(joules float64, at time.Time, most gpu.Watts, booking Booking) {
	c := m.Counter
	counted := joules - c.Joules
	switch {
	case !c.Known:
	case counted < 0 || counted > possible(c.Seconds, most):
		m.forgetCounter()
	default:
		var booked Amount
		for _, amount := range c.Booked {
			booked += amount
		}
		missing := Of(gpu.Joules(counted)) - booked - c.Ahead
		m.correct(max(missing, 0), booking)
		m.Counter.Owed = max(-missing, 0)
	}
	m.begin(joules, at)
}

// possible returns how many joules a device can use in some seconds.
func possible(seconds float64, most gpu.Watts) float64 {
	if most <= 0 {
		most = mostPower
	}
	const slack = 1000 // the counter and the clock are not read at the same moment
	return math.Max(seconds, 1)*1.5*float64(most) + slack
}

// correct books energy that the driver counted but no sample measured. If some of the
// time was without a power reading, the energy belongs to that time. Otherwise every
// party gets more, in proportion to its part.
func (m *Meter) correct(missing Amount, booking Booking) {
	c := m.Counter
	if c.Dark > 0 {
		m.book(missing, c.Dark, c.Unseen.clean(), booking)
		return
	}
	weights := Shares{}
	for p, amount := range c.Booked {
		weights[p] = float64(amount)
	}
	for party, part := range split(missing, weights.clean()) {
		m.enter(party, part, booking)
	}
}

// Sound reports whether the sums of a device, which somebody may have written by hand,
// are credible. It drops invalid shares.
func (m *Meter) Sound() bool {
	for _, part := range []Amount{m.Idle, m.Others, m.Leases, m.Counter.Owed, m.Counter.Ahead} {
		if part < 0 || part > Of(mostJoules) {
			return false
		}
	}
	for _, part := range m.Counter.Booked {
		if part < 0 || part > Of(mostJoules) {
			return false
		}
	}
	m.Last.Shares, m.Counter.Unseen = m.Last.Shares.clean(), m.Counter.Unseen.clean()
	m.Last.Power = plausible(m.Last.Power, 0)
	return m.Total == m.Idle+m.Others+m.Leases && m.Baseline.Watts >= 0 && m.Baseline.Watts <= mostPower && m.Unmeasured >= 0
}
