// Package s3archive keeps the files of an archive of limits and usage in a bucket of S3.
//
//	w, err := s3archive.New(s3.NewFromConfig(cfg), "my-bucket", &s3archive.Options{Prefix: "limits/"})
//	a, err := archive.New(w, nil)
//
// It needs s3:PutObject on the objects below the prefix, and nothing else; with a key of KMS
// also kms:GenerateDataKey on it. It never reads, lists or deletes.
//
// It is a module of its own, so that the SDK of S3 reaches no other binary, and imports
// nothing of the limiter: a [Writer] has the one method of archive.Writer.
package s3archive
