# The commands of docs/how-to/messages-with-curl.rst; needs a broker that listens for RestMS at $URL.
set -eu

ask() { curl --silent --show-error --fail-with-body --user guest:guest "$@"; }

# a pipe
PIPE=$(ask --output /dev/null --write-out '%header{location}' "$URL/restms/domain/default" \
  -H "Content-Type: application/json" -d '{"restms": {"pipe": [{"title": "mine"}]}}')
NAME=${PIPE##*/}

# a message
ask "$URL/restms/feed/default" -H "Content-Type: application/restms+json" -d '{"restms": {"message": [
  {"address": "'"$NAME"'", "content": [{"type": "text/plain", "value": "hello"}]}]}}'

# reading
ask "$PIPE?messages=10" -H "Prefer: wait=30"
MESSAGE=$(ask "$PIPE?messages=10" | sed -n 's/.*message href="\([^"]*\)".*/\1/p' | tail -n 1)
ask -X DELETE "$MESSAGE"

# topics
ask "$URL/restms/domain/default" -d '<restms><feed name="news" type="topic"/></restms>' -H "Content-Type: text/xml"
ask "$PIPE" -d "<restms><join feed='/restms/feed/news' address='weather.#'/></restms>" -H "Content-Type: text/xml"
ask "$URL/restms/feed/news" -H "Content-Type: text/xml" \
  -d '<restms><message address="weather.oslo"><content type="text/plain">rain</content></message></restms>'
ask "$PIPE?messages=10" -H "Accept: application/json"

# work
ask "$URL/restms/domain/default" -d '<restms><feed name="work" type="rotator"/></restms>' -H "Content-Type: text/xml"
WORKER=$(ask --output /dev/null --write-out '%header{location}' "$URL/restms/domain/default" \
  -d '<restms><pipe type="ondemand"/></restms>' -H "Content-Type: text/xml")
ask "$WORKER" -d "<restms><join feed='/restms/feed/work'/></restms>" -H "Content-Type: text/xml"
ask "$URL/restms/feed/work" -H "Content-Type: text/xml" -d '<restms><message message_id="job 1"/></restms>'
NEXT=$(ask "$WORKER" | sed -n 's/.*message href="\([^"]*\)".*async="1".*/\1/p')
ask "$NEXT"
ask -X DELETE "$NEXT"

# files
FILE=$(ask --output /dev/null --write-out '%header{location}' "$URL/restms/feed/news" \
  -H "Content-Type: image/png" --data-binary @picture.png)
ask "$URL/restms/feed/news" -H "Content-Type: text/xml" \
  -d "<restms><message address='weather.map'><content href='$FILE'/></message></restms>"

# end
ask "$PIPE?messages=10"
