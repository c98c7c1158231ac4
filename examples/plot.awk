# Draws a record and two curves over time: in the terminal with characters, and as SVG into the file `svg`.
# Variables: times, record, before, after (lists in brackets), svg (a path).
function list(text, out,   n, i) {
    gsub(/[][,]/, " ", text)
    n = split(text, out, " ")
    return n
}
function row(v) { return int((top - v) / (top - bottom) * (height - 1) + 0.5) }
function col(t) { return int(t / last * (width - 1) + 0.5) }
function put(t, v, mark,   r, c) {
    r = row(v); c = col(t)
    if (r >= 0 && r < height && c >= 0 && c < width && !(mark == "." && grid[r, c] != "")) grid[r, c] = mark
}
function x(t) { return 50 + t / last * 720 }
function y(v) { return 20 + (top - v) / (top - bottom) * 300 }
function path(v, color, dash,   i, d) {
    for (i = 1; i <= n; i++) d = d (i == 1 ? "M" : "L") sprintf("%.1f %.1f ", x(t[i]), y(v[i]))
    printf "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", d, color, dash >svg
}
BEGIN {
    n = list(times, t); list(record, r); list(before, b); list(after, a)
    last = t[n]; top = -9; bottom = 9
    for (i = 1; i <= n; i++) {
        if (r[i] > top) top = r[i]; if (b[i] > top) top = b[i]
        if (r[i] < bottom) bottom = r[i]; if (b[i] < bottom) bottom = b[i]
    }
    width = 100; height = 21
    for (i = 1; i <= n; i++) put(t[i], b[i], "-")
    for (i = 1; i <= n; i++) put(t[i], a[i], "#")
    for (i = 1; i <= n; i++) put(t[i], r[i], ".")
    printf "\n  angle over %g s:  . record   - before   # after\n", last
    for (i = 0; i < height; i++) {
        line = sprintf("%6.2f |", top - i / (height - 1) * (top - bottom))
        for (j = 0; j < width; j++) line = line (grid[i, j] == "" ? " " : grid[i, j])
        sub(/ +$/, "", line)
        print line
    }
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"370\" font-family=\"sans-serif\" font-size=\"13\">\n" >svg
    printf "<rect width=\"800\" height=\"370\" fill=\"white\"/>\n" >svg
    printf "<line x1=\"50\" y1=\"%.1f\" x2=\"770\" y2=\"%.1f\" stroke=\"#bbb\"/>\n", y(0), y(0) >svg
    for (s = 0; s <= last; s += 2) printf "<text x=\"%.1f\" y=\"340\" text-anchor=\"middle\">%d s</text>\n", x(s), s >svg
    path(b, "#c44", " stroke-dasharray=\"6 4\""); path(a, "#27a", "")
    for (i = 1; i <= n; i++) printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"#444\"/>\n", x(t[i]), y(r[i]) >svg
    printf "<text x=\"50\" y=\"362\" fill=\"#444\">dots: record</text><text x=\"170\" y=\"362\" fill=\"#c44\">dashed: before</text><text x=\"300\" y=\"362\" fill=\"#27a\">line: after</text>\n</svg>\n" >svg
}
