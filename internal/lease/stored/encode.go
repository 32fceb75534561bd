package stored

import (
	"strconv"
	"unicode/utf8"
)

// Append appends e to dst as the JSON that encoding/json would write, several
// times faster: every grant waits for it. The JSON contains no newline.
func (e *Entry) Append(dst []byte) []byte {
	dst = append(dst, `{"v":`...)
	dst = strconv.AppendInt(dst, int64(e.Version), 10)
	dst = appendText(dst, `,"kind":`, string(e.Kind))
	dst = appendInt(dst, `,"time_ns":`, e.Time)
	dst = appendOptional(dst, `,"id":`, e.ID)
	dst = append(dst, `,"fence":`...)
	dst = strconv.AppendUint(dst, e.Fence, 10)
	dst = appendInt(dst, `,"expires_ns":`, e.Expires)
	dst = appendInt(dst, `,"ttl_ns":`, e.TTL)
	dst = appendOptional(dst, `,"why":`, e.Why)
	if e.By != (By{}) {
		dst = e.By.append(append(dst, `,"by":`...))
	}
	if e.Lease != nil {
		dst = append(dst, `,"lease":{`...)
		dst = append(e.Lease.append(dst), '}')
	}
	if e.AuditLine != (AuditLine{}) {
		dst = strconv.AppendUint(append(dst, `,"line":{"seq":`...), e.AuditLine.Seq, 10)
		dst = append(appendText(dst, `,"hash":`, e.AuditLine.Hash), '}')
	}
	return append(dst, '}')
}

func (b *By) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"uid":`...), int64(b.UID), 10)
	dst = appendOptional(dst, `,"user":`, b.User)
	dst = appendOptional(dst, `,"token":`, b.Token)
	dst = appendOptional(dst, `,"door":`, b.Door)
	return append(dst, '}')
}

func (l *Lease) append(dst []byte) []byte {
	dst = append(dst, `"uid":`...)
	dst = strconv.AppendInt(dst, int64(l.UID), 10)
	dst = appendOptional(dst, `,"parent":`, l.Parent)
	dst = appendOptional(dst, `,"user":`, l.User)
	dst = appendOptional(dst, `,"service":`, l.Service)
	dst = appendOptional(dst, `,"name":`, l.Name)
	dst = appendInt(dst, `,"pid":`, int64(l.PID))
	if l.Start != 0 {
		dst = strconv.AppendUint(append(dst, `,"start":`...), l.Start, 10)
	}
	dst = appendOptional(dst, `,"boot":`, l.Boot)
	dst = appendText(dst, `,"binding":`, l.Binding)
	if l.Implied {
		dst = append(dst, `,"implied":true`...)
	}
	dst = appendInt(dst, `,"ttl_ns":`, l.TTL)
	dst = strconv.AppendInt(append(dst, `,"granted_ns":`...), l.Granted, 10)
	dst = appendInt(dst, `,"expires_ns":`, l.Expires)
	dst = append(dst, `,"parts":[`...)
	for i, p := range l.Parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, `{"gpu":`, p.GPU)
		dst = appendInt(dst, `,"memory_mb":`, p.Memory)
		dst = appendInt(dst, `,"slots":`, int64(p.Slots))
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	dst = appendInt(dst, `,"priority":`, int64(l.Priority))
	dst = appendText(dst, `,"state":`, l.State)
	dst = appendOptional(dst, `,"enforced_by":`, l.EnforcedBy)
	if l.Raised {
		dst = append(dst, `,"raised":true`...)
	}
	dst = appendOptional(dst, `,"note":`, l.Note)
	dst = appendOptional(dst, `,"unit":`, l.Unit)
	dst = appendList(dst, `,"scope":`, l.Scope)
	dst = appendInt(dst, `,"time_limit_ns":`, l.TimeLimit)
	if l.Imposed {
		dst = append(dst, `,"imposed":true`...)
	}
	dst = appendList(dst, `,"groups":`, l.Groups)
	if l.Parkable {
		dst = append(dst, `,"parkable":true`...)
	}
	if l.Unshared {
		dst = append(dst, `,"unshared":true`...)
	}
	dst = appendInt(dst, `,"parked_ns":`, l.ParkedAt)
	dst = appendInt(dst, `,"returned_ns":`, l.Returned)
	dst = appendInt(dst, `,"paused_ns":`, l.Paused)
	return appendInt(dst, `,"asked_mb":`, l.Asked)
}

// appendInt appends a field unless it is zero.
func appendInt(dst []byte, field string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, field...), n, 10)
}

// appendOptional appends a field unless it is empty.
func appendOptional(dst []byte, field, text string) []byte {
	if text == "" {
		return dst
	}
	return appendText(dst, field, text)
}

// appendList appends a field with a list of strings unless it is empty.
func appendList(dst []byte, field string, list []string) []byte {
	for i, text := range list {
		if i == 0 {
			field += "["
		} else {
			field = ","
		}
		dst = appendText(dst, field, text)
	}
	if len(list) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendText appends a field with a JSON string.
func appendText(dst []byte, field, text string) []byte {
	dst = append(append(dst, field...), '"')
	begin := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, size := utf8.DecodeRuneInString(text[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, text[begin:i]...)
		dst = appendEscaped(dst, c)
		i++
		begin = i
	}
	return append(append(dst, text[begin:]...), '"')
}

// appendEscaped appends a byte that JSON does not allow in a string as it is.
// A byte of broken UTF-8 becomes U+FFFD, the replacement character.
func appendEscaped(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c >= utf8.RuneSelf:
		return append(dst, `\ufffd`...)
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
