// The run's feed over a websocket. After a break it asks for what came after the last event it has seen.
export function follow(run, after, onEvent, onState) {
  let last = after;
  let delay = 500;

  const connect = () => {
    const url = new URL("/api/v1/live", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    socket.addEventListener("open", () => {
      delay = 500;
      socket.send(JSON.stringify({ subscribe: `run/${run}`, after: last }));
      onState("live");
    });
    socket.addEventListener("message", (message) => {
      const event = JSON.parse(message.data);
      if (event.run !== run || !(event.seq > last)) return; // seen before, or a word of the server's that is no event
      last = event.seq;
      onEvent(event);
    });
    socket.addEventListener("close", () => {
      onState("lost");
      setTimeout(connect, delay * (0.75 + Math.random() / 2)); // spread, so that many tabs don't return at once
      delay = Math.min(delay * 2, 10000);
    });
  };

  onState("connecting");
  connect();
}
