"""prometheus-api-client, as it comes, against an agent: client.py URL START END

Prints what it got as one line of JSON.
"""

import json
import sys
from datetime import datetime, timedelta, timezone

from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

url, start, end = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
begin = datetime.fromtimestamp(start, timezone.utc)
finish = datetime.fromtimestamp(end, timezone.utc)


def refusal(client):
    try:
        client.custom_query("no_such(temp)")
    except PrometheusApiClientException as error:
        return str(error)
    return ""


def got(method):
    client = PrometheusConnect(url=url, method=method, retry=0)
    wanted = {"device": "boiler"}
    at = {"time": str(end)}
    ranges = client.get_metric_range_data(
        "temp", wanted, start_time=begin, end_time=finish, chunk_size=timedelta(minutes=30)
    )
    return {
        "connected": client.check_prometheus_connection(),
        "metrics": sorted(client.all_metrics()),
        "labels": sorted(client.get_label_names()),
        "devices": sorted(client.get_label_values("device")),
        "series": len(client.get_series(begin, finish, {"match[]": "temp"})),
        "current": client.get_current_metric_value("temp", wanted, params=at),
        "samples": sum(len(one["values"]) for one in ranges),
        "query": client.custom_query("sum(temp)", params=at),
        "steps": len(client.custom_query_range("temp", begin, finish, "60")[0]["values"]),
        "unit": client.get_metric_metadata("temp")[0]["unit"],
        "refused": refusal(client),
    }


print(json.dumps({method: got(method) for method in ("GET", "POST")}))
