package budgethttp

// Examples of bodies in the document. A test sends them.
var (
	exampleUsage = example{
		"request_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "model_label": "premium",
		"model_id": "anthropic.claude-3-5-sonnet-20241022-v2:0",
		"tokens":   example{"input": 1500, "output": 800}, "status": "OK", "timestamp": "2026-01-23T15:30:45Z",
	}
	exampleReceipt = example{
		"request_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "status": "accepted", "model_label": "premium",
		"cost_usd_micros": 16500, "day": "20260123", "shard": 3, "price_version": "catalog", "spend_usd_micros": 16500,
		"quota_pct": 0.2, "mode": "NORMAL", "quota_status": "NORMAL", "recommended_label": "premium", "reset_at": "2026-01-24T05:00:00Z",
	}
	exampleBatch        = example{"records": []any{exampleUsage}}
	exampleBatchReceipt = example{
		"accepted": 1, "duplicate": 0, "failed": 0,
		"results": []any{example{"index": 0, "status": "accepted", "receipt": exampleReceipt}},
	}
	exampleLabel = example{
		"label": "premium", "model_id": "anthropic.claude-3-5-sonnet-20241022-v2:0", "spend_usd_micros": 16500,
		"quota_usd_micros": 10000000, "quota_pct": 0.2, "status": "NORMAL",
	}
	exampleSelection = example{
		"org_id": "550e8400-e29b-41d4-a716-446655440000", "app_id": "app-production-api", "day": "20260123",
		"recommended_model": example{
			"label": "premium", "model_id": "anthropic.claude-3-5-sonnet-20241022-v2:0",
			"price": example{"input_usd_micros_per_1m": 3000000, "output_usd_micros_per_1m": 15000000},
		},
		"mode": "NORMAL", "reason": "WITHIN_QUOTA", "quota_status": []any{exampleLabel},
		"cache_duration_secs": 300, "reset_at": "2026-01-24T05:00:00Z",
	}
	exampleTotals = example{
		"org_id": "550e8400-e29b-41d4-a716-446655440000", "day": "20260123", "cost_usd_micros": 16500,
		"labels": []any{example{
			"label": "premium", "cost_usd_micros": 16500, "quota_usd_micros": 10000000, "quota_pct": 0.2,
			"status": "NORMAL", "requests": 1,
			"tokens": example{"input": 1500, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "output": 800},
		}},
	}
)

type example map[string]any

// Examples of an administrator's requests.
var (
	exampleOrg = example{
		"org_name": "sample_corp", "timezone": "America/New_York", "quota_scope": "APP",
		"model_ordering": []any{"premium", "standard", "economy"},
		"quotas":         example{"premium": 10000000, "standard": 5000000, "economy": 2000000},
		"models": example{
			"premium":  "anthropic.claude-3-5-sonnet-20241022-v2:0",
			"standard": "anthropic.claude-3-5-haiku-20241022-v1:0",
			"economy":  "anthropic.claude-3-haiku-20240307-v1:0",
		},
		"tight_mode_threshold_pct": 95, "agg_shard_count": 8, "sticky_fallback_enabled": true,
	}
	exampleApp = example{
		"app_name": "Production API", "model_ordering": []any{"premium", "standard"},
		"quotas": example{"premium": 5000000, "standard": 2000000}, "tight_mode_threshold_pct": 90,
	}
	exampleRetrieve   = example{"token": "the retrieval_token of a PUT or a rotation"}
	exampleRotate     = example{"grace_hours": 24}
	exampleAdjustment = example{
		"id": "0f8fad5b-d9cb-469f-a165-70867728950e", "model_label": "premium", "day": "20260123",
		"delta_usd_micros": -16500, "reason": "counted twice by the batch job",
	}
	exampleOverride = example{"model_label": "standard", "until": "2099-12-31T05:00:00Z"}
)

// Examples of authentication.
var (
	exampleLogin = example{
		"client_id": "org-550e8400-e29b-41d4-a716-446655440000-app-app-production-api", "client_secret": "the client_secret that was fetched",
	}
	exampleRefresh = example{"refresh_token": "the refresh_token of a login"}
	exampleRevoke  = example{"token": "the refresh_token of a login"}
	exampleGranted = example{
		"access_token": "eyJhbGciOiJFZERTQSIs…", "token_type": "Bearer", "expires_in": 3600,
		"refresh_token": "eyJhbGciOiJFZERTQSIs…", "refresh_expires_in": 604800,
		"scope": "app", "org_id": "550e8400-e29b-41d4-a716-446655440000", "app_id": "app-production-api",
	}
)

var exampleEstimate = example{"model_label": "premium", "estimate_usd_micros": 16500}
