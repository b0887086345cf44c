//! A read-only, S3-speaking store over a folder, as slow as a real one: a wait before each answer, a ceiling on each
//! connection. For benchmarks on one machine; it checks no signatures and supports no writes.
//!
//!     rustc -O slowstore.rs
//!     ./slowstore PORT FOLDER LATENCY_MS MIB_PER_S_PER_CONNECTION      (0 = no wait, 0 = no ceiling)
//!
//! Prints the port, which it chooses itself for PORT 0, and ends with its standard input, so that it never outlives its parent.
//!
//! FOLDER/<bucket>/<key>. Answers HEAD, GET (with Range and If-Match), and ListObjectsV2 (prefix, delimiter ignored, paged by 1000).
//! ETags are made of size and modification time, so that they change when a file is written anew.
//! GET /__stats -> JSON, since the last call: requests, bytes of objects sent, lists
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is sent between two looks at the clock; by sendfile, so that the store leaves the processor to its clients.
const CHUNK: u64 = 1 << 18;

struct Store {
    root: String,
    latency: u64,
    rate: f64,
    requests: AtomicU64,
    bytes: AtomicU64,
    lists: AtomicU64,
}

fn unquote(s: &str) -> String {
    let b = s.as_bytes();
    let mut out = Vec::new();
    let mut i = 0;
    while i < b.len() {
        if b[i] == b'%' && i + 2 < b.len() {
            out.push(u8::from_str_radix(&s[i + 1..i + 3], 16).unwrap_or(b'%'));
            i += 3;
        } else {
            out.push(b[i]);
            i += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

// A head is put together before it is written: each write is a packet.
fn answer(w: &mut TcpStream, code: &str, kind: &str, extra: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {code}\r\nContent-Length: {}\r\nContent-Type: {kind}\r\n{extra}\r\n", body.len());
    w.write_all(&[head.as_bytes(), body].concat())
}

fn error(w: &mut TcpStream, code: &str, name: &str) -> std::io::Result<()> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{name}</Code><Message>{name}</Message></Error>");
    answer(w, code, "application/xml", "", body.as_bytes())
}

fn etag(m: &fs::Metadata) -> String {
    format!("{:x}-{:x}", m.len(), m.mtime() as u64 * 1_000_000_000 + m.mtime_nsec() as u64)
}

fn keys(dir: &std::path::Path, base: &str, out: &mut Vec<(String, u64, String)>) {
    for e in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = format!("{base}{}", e.file_name().to_string_lossy());
        match e.metadata() {
            Ok(m) if m.is_dir() => keys(&e.path(), &format!("{name}/"), out),
            Ok(m) => out.push((name, m.len(), etag(&m))),
            Err(_) => {}
        }
    }
}

fn list(s: &Store, bucket: &str, query: &str) -> String {
    let get = |k: &str| query.split('&').find_map(|p| p.strip_prefix(k)).map(unquote).unwrap_or_default();
    let (prefix, after, token) = (get("prefix="), get("start-after="), get("continuation-token="));
    let after = if token.is_empty() { after } else { token };
    let mut all = Vec::new();
    keys(std::path::Path::new(&format!("{}/{bucket}", s.root)), "", &mut all);
    all.retain(|(k, _, _)| k.starts_with(&prefix) && *k > after);
    all.sort();
    let more = all.len() > 1000;
    all.truncate(1000);
    let next = if more { format!("<NextContinuationToken>{}</NextContinuationToken>", all[999].0) } else { String::new() };
    let items: String = all.iter().map(|(k, n, t)| format!("<Contents><Key>{k}</Key><LastModified>2026-11-21T00:00:00.000Z</LastModified><ETag>&quot;{t}&quot;</ETag><Size>{n}</Size><StorageClass>STANDARD</StorageClass></Contents>")).collect();
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>{bucket}</Name><Prefix>{prefix}</Prefix><KeyCount>{}</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>{more}</IsTruncated>{next}{items}</ListBucketResult>", all.len())
}

fn stats(s: &Store) -> String {
    let named = [("requests", &s.requests), ("bytes", &s.bytes), ("lists", &s.lists)];
    let items: Vec<String> = named.iter().map(|(name, count)| format!("\"{name}\": {}", count.swap(0, SeqCst))).collect();
    format!("{{{}}}", items.join(", "))
}

fn serve(s: &Store, stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut w = stream.try_clone()?;
    let mut r = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if r.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let (mut range, mut wanted, mut length) = (None, None, 0usize);
        loop {
            let mut h = String::new();
            if r.read_line(&mut h)? == 0 {
                return Ok(());
            }
            if h == "\r\n" {
                break;
            }
            let h = h.to_ascii_lowercase();
            if let Some(v) = h.strip_prefix("range: bytes=") {
                range = Some(v.trim().to_string());
            }
            if let Some(v) = h.strip_prefix("if-match:") {
                wanted = Some(v.trim().trim_matches('"').to_string());
            }
            if let Some(v) = h.strip_prefix("content-length:") {
                length = v.trim().parse().unwrap_or(0);
            }
        }
        std::io::copy(&mut (&mut r).take(length as u64), &mut std::io::sink())?;
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or("/"));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if path == "/__stats" {
            answer(&mut w, "200 OK", "application/json", "", stats(s).as_bytes())?;
            continue;
        }
        s.requests.fetch_add(1, SeqCst);
        let path = unquote(path);
        let (bucket, key) = path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
        std::thread::sleep(Duration::from_millis(s.latency));
        if key.is_empty() {
            s.lists.fetch_add(1, SeqCst);
            let body = if method == "HEAD" { String::new() } else { list(s, bucket, query) };
            answer(&mut w, "200 OK", "application/xml", "", body.as_bytes())?;
            continue;
        }
        let file = match File::open(format!("{}/{bucket}/{key}", s.root)) {
            Ok(f) if !key.contains("..") && f.metadata()?.is_file() => f,
            _ => {
                if method == "HEAD" { answer(&mut w, "404 Not Found", "application/xml", "", b"")? } else { error(&mut w, "404 Not Found", "NoSuchKey")? }
                continue;
            }
        };
        let found = file.metadata()?;
        let (size, tag) = (found.len(), etag(&found));
        let common = format!("ETag: \"{tag}\"\r\nLast-Modified: Sat, 21 Nov 2026 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n");
        if wanted.is_some_and(|one| one != tag) {
            let code = "412 Precondition Failed";
            if method == "HEAD" { answer(&mut w, code, "application/xml", "", b"")? } else { error(&mut w, code, "PreconditionFailed")? }
            continue;
        }
        if method == "HEAD" {
            w.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nContent-Type: application/octet-stream\r\n{common}\r\n").as_bytes())?;
            continue;
        }
        let (mut first, mut last, mut code) = (0, size.saturating_sub(1), "200 OK");
        if let Some(v) = &range {
            let (a, b) = v.split_once('-').unwrap_or((v, ""));
            if a.is_empty() {
                first = size.saturating_sub(b.parse().unwrap_or(0));
            } else {
                first = a.parse().unwrap_or(0);
                last = b.parse::<u64>().unwrap_or(u64::MAX).min(size.saturating_sub(1));
            }
            if first >= size || first > last {
                error(&mut w, "416 Requested Range Not Satisfiable", "InvalidRange")?;
                continue;
            }
            code = "206 Partial Content";
        }
        let total = if size == 0 { 0 } else { last - first + 1 };
        let place = if code.starts_with("206") { format!("Content-Range: bytes {first}-{last}/{size}\r\n") } else { String::new() };
        w.write_all(format!("HTTP/1.1 {code}\r\nContent-Length: {total}\r\nContent-Type: application/octet-stream\r\n{common}{place}\r\n").as_bytes())?;
        let mut file = file;
        file.seek(SeekFrom::Start(first))?;
        let (t0, mut sent) = (Instant::now(), 0u64);
        while sent < total {
            let chunk = (total - sent).min(CHUNK);
            // Counted before it is sent, so that a client with the last byte finds it in the statistics.
            s.bytes.fetch_add(chunk, SeqCst);
            if std::io::copy(&mut (&mut file).take(chunk), &mut w)? < chunk {
                // The file was cut while it was sent.
                return Ok(());
            }
            sent += chunk;
            if s.rate > 0.0 {
                let ahead = sent as f64 / s.rate - t0.elapsed().as_secs_f64();
                if ahead > 0.001 { std::thread::sleep(Duration::from_secs_f64(ahead)); }
            }
        }
    }
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a.len() != 5 {
        eprintln!("usage: slowstore PORT FOLDER LATENCY_MS MIB_PER_S_PER_CONNECTION");
        std::process::exit(2);
    }
    let store = Arc::new(Store {
        root: a[2].clone(), latency: a[3].parse().unwrap(), rate: a[4].parse::<f64>().unwrap() * 1048576.0,
        requests: AtomicU64::new(0), bytes: AtomicU64::new(0), lists: AtomicU64::new(0),
    });
    let listener = TcpListener::bind(format!("127.0.0.1:{}", a[1])).unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    for stream in listener.incoming().flatten() {
        let store = store.clone();
        std::thread::spawn(move || { let _ = serve(&store, stream); });
    }
}
