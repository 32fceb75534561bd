package lease

// Allowance names a quota or a limit that a request may have to wait for although there
// is room: the quota of its service, or a limit of its user or of a group.
type Allowance struct {
	Group string // empty if it is not the limit of a group

	user    bool
	service string
	owner   Owner
}

// ServiceQuota returns the quota of a service as an allowance.
func ServiceQuota(service string) Allowance { return Allowance{service: service} }

// UserLimit returns the limits of a user as an allowance.
func UserLimit(user Owner) Allowance { return Allowance{user: true, owner: user} }

// GroupLimit returns the limits of a group as an allowance.
func GroupLimit(group string) Allowance { return Allowance{Group: group} }
