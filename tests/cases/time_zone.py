#! {"options": {"timezone": "Asia/Kathmandu"}}
import datetime, os, time
print(time.tzname, datetime.datetime.fromtimestamp(0), os.environ["TZ"])
