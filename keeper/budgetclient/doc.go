// Package budgetclient is a client of a keeper of budgets that package budgethttp serves, for
// services without access to DynamoDB. A Client has the methods that package llm needs of a
// *budget.Keeper, so a guard can use either:
//
//	client, err := budgetclient.New(&budgetclient.Options{
//		BaseURL: "https://keeper.example.com", ClientID: id, Secret: credentials.NewSecret(secret),
//	})
//	defer client.Close()
//	guard, err := llm.New(&llm.Options{Keeper: client})
//
// Its errors are those of package budget. After a lost response it sends the request again: the
// keeper counts a record once under its request id.
package budgetclient
