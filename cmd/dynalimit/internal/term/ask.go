package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrDeclined means that the user did not confirm.
var ErrDeclined = errors.New("not confirmed, nothing was changed")

// NobodyError is a question without a terminal to ask it on.
type NobodyError struct{ Question string }

// Error repeats the question and names --yes, which confirms without a terminal.
func (e *NobodyError) Error() string {
	return fmt.Sprintf("%s: nobody can be asked here; give --yes to confirm", strings.TrimRight(e.Question, ".?"))
}

// Confirm prints a question on Notes and waits until the user types word, such as the name of the object to
// delete. It fails with ErrDeclined for another answer, a *NobodyError without a terminal, and the cause if ctx
// ends. Notes of Watch pause meanwhile.
func (o *Output) Confirm(ctx context.Context, question, word string) error {
	if o.In == nil {
		return &NobodyError{question}
	}
	o.silence.Load().pauseNotes() // the user may take their time
	defer o.silence.Load().restartWait()
	o.writeNote(fmt.Sprintf("%s\nType %s to go on: ", question, o.Bold(word)))
	answer := make(chan string, 1)
	go func() { // ends with the program if the user does not answer
		line, _ := bufio.NewReader(o.In).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case given := <-answer:
		if given != word {
			return fmt.Errorf("%w; run it again and type %s to confirm", ErrDeclined, word)
		}
		return nil
	}
}
