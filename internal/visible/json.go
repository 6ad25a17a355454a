package visible

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// JSON is a candidate's value in JSON, which has text only. Embed it.
type JSON struct {
	Value string `json:"value"`                  // bytes that are not UTF-8 are replaced
	Bytes string `json:"value_base64,omitempty"` // the exact bytes, if the value is not UTF-8
}

// InJSON returns a candidate's value in JSON.
func InJSON(value string) JSON {
	if utf8.ValidString(value) {
		return JSON{Value: value}
	}
	return JSON{Value: strings.ToValidUTF8(value, "\ufffd"), Bytes: base64.StdEncoding.EncodeToString([]byte(value))}
}
