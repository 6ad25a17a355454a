package visible_test

import (
	"encoding/json"
	"testing"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/stretchr/testify/require"
)

func TestInJSON(t *testing.T) {
	for value, want := range map[string]string{
		"dbhost2:4567": `{"value":"dbhost2:4567"}`, "": `{"value":""}`, "\xff": `{"value":"` + "\ufffd" + `","value_base64":"/w=="}`,
	} {
		text, err := json.Marshal(struct{ visible.JSON }{visible.InJSON(value)})
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}
