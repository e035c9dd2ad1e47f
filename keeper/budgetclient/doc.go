// Package budgetclient is a client of a keeper of budgets that is served over HTTP by
// package budgethttp: for services without access to DynamoDB. A Client has what package llm
// needs of a *budget.Keeper, so that a guard works over it as it does over the library:
//
//	client, err := budgetclient.New(&budgetclient.Options{
//		BaseURL: "https://keeper.example.com", ClientID: id, Secret: credentials.NewSecret(secret),
//	})
//	defer client.Close()
//	guard, err := llm.New(&llm.Options{Keeper: client})
//
// Its errors are those of package budget. What was sent is sent again after an answer that
// was lost: records are counted once under their request id.
package budgetclient
