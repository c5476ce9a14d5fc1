import { useEffect, useState } from "react";

const LIMIT = 50;

export function load(url, options = {}) {
  return fetch(url, { ...options, headers: { accept: "application/json" } }).then((response) => {
    if (!response.ok) {
      throw new Error("status " + response.status + "\n" + url);
    }
    return response.json();
  });
}

export default function List({ url, onPick }) {
  const [items, setItems] = useState([]);
  const [error, setError] = useState(null);

  useEffect(() => {
    let isGone = false;
    load(url)
      .then((loaded) => {
        if (!isGone) {
          setItems(loaded.slice(0, LIMIT));
        }
      })
      .catch((failure) => setError(failure));

    return () => {
      isGone = true;
    };
  }, [url]);

  if (error) {
    return <p className="error">{error.message}</p>;
  }

  return (
    <ul className="list">
      {items.map((item) => (
        <li key={item.id}>
          <button type="button" onClick={() => onPick(item)}>
            {item.name}
          </button>
          <span className={item.isNew ? "new" : "old"}>{item.count}</span>
        </li>
      ))}
    </ul>
  );
}

export function shorten(text, length) {
  const line = text.split("\n")[0];
  if (line.length <= length) {
    return line;
  }
  return line.slice(0, length - 1) + "…";
}
