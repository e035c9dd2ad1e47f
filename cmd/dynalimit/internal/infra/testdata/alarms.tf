# Limits of LLM calls in DynamoDB (dynalimit): alarms.
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "limits_table_name" {
  description = "Name of the table: Limits, buckets, entities and their history"
  type        = string
  default     = "limits"
}

variable "alarm_topic_arn" {
  description = "ARN of the SNS topic that alarms are sent to; null for none"
  type        = string
  default     = null
}

variable "stream_function_name" {
  description = "Lambda function that reads the stream of the limits; null for none"
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that can have some"
  type        = map(string)
  default     = {}
}

# Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum.
resource "aws_cloudwatch_metric_alarm" "limits_read_throttles" {
  alarm_name          = "${var.limits_table_name}-limits-read-throttles"
  alarm_description   = "Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "LimitsReadThrottles"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI1"
      }
    }
  }

  metric_query {
    id = "m3"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI2"
      }
    }
  }

  metric_query {
    id = "m4"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI3"
      }
    }
  }
}

# Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has.
resource "aws_cloudwatch_metric_alarm" "limits_write_throttles" {
  alarm_name          = "${var.limits_table_name}-limits-write-throttles"
  alarm_description   = "Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "LimitsWriteThrottles"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI1"
      }
    }
  }

  metric_query {
    id = "m3"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI2"
      }
    }
  }

  metric_query {
    id = "m4"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI3"
      }
    }
  }
}

# DynamoDB fails. Calls go on by the policy for outages. See the region's health.
resource "aws_cloudwatch_metric_alarm" "limits_system_errors" {
  alarm_name          = "${var.limits_table_name}-limits-system-errors"
  alarm_description   = "DynamoDB fails. Calls go on by the policy for outages. See the region's health."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 5
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "LimitsSystemErrors"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "BatchGetItem"
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "GetItem"
      }
    }
  }

  metric_query {
    id = "m3"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "Query"
      }
    }
  }

  metric_query {
    id = "m4"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "TransactWriteItems"
      }
    }
  }

  metric_query {
    id = "m5"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "UpdateItem"
      }
    }
  }
}

# Calls were admitted without their buckets, because DynamoDB did not answer. See the region's health, and the policy for outages.
resource "aws_cloudwatch_metric_alarm" "degraded_leases" {
  alarm_name          = "${var.limits_table_name}-degraded-leases"
  alarm_description   = "Calls were admitted without their buckets, because DynamoDB did not answer. See the region's health, and the policy for outages."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "dynalimit"
  metric_name         = "DegradedLeases"
  statistic           = "Sum"
  period              = 60
  dimensions = {
    TableName = var.limits_table_name
  }
}

# Whoever reads the table's stream is more than 5 minutes behind, or says nothing any more. See whether it runs, and whether it fails.
resource "aws_cloudwatch_metric_alarm" "stream_age" {
  alarm_name                = "${var.limits_table_name}-stream-age"
  alarm_description         = "Whoever reads the table's stream is more than 5 minutes behind, or says nothing any more. See whether it runs, and whether it fails."
  alarm_actions             = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions                = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator       = "GreaterThanOrEqualToThreshold"
  threshold                 = 300
  evaluation_periods        = 3
  treat_missing_data        = "missing"
  tags                      = var.tags
  insufficient_data_actions = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  namespace                 = "dynalimit"
  metric_name               = "StreamAgeSeconds"
  statistic                 = "Maximum"
  period                    = 60
  dimensions = {
    TableName = var.limits_table_name
  }
}

# The function that reads the table's stream is more than 5 minutes behind. See whether it fails.
resource "aws_cloudwatch_metric_alarm" "stream_function_age" {
  count               = var.stream_function_name == null ? 0 : 1
  alarm_name          = "${var.limits_table_name}-stream-function-age"
  alarm_description   = "The function that reads the table's stream is more than 5 minutes behind. See whether it fails."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 300000
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/Lambda"
  metric_name         = "IteratorAge"
  statistic           = "Maximum"
  period              = 60
  dimensions = {
    FunctionName = var.stream_function_name
  }
}
