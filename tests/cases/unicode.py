print("naïve café \u2014 日本語 \U0001F600 \u2028 end")
print("tab\there", "carriage\r\nreturn")
