# Much of what a shell does; what it prints is the same every time.
exec 2>&1
set -o pipefail
shopt -s extglob globstar nullglob
folder=$(mktemp -d)
trap 'rm -rf "$folder"; echo "left with $?"' EXIT
cd "$folder" || exit 1

fibonacci() { local n=$1; ((n < 2)) && { echo "$n"; return; }; echo $(($(fibonacci $((n - 1))) + $(fibonacci $((n - 2))))); }
fibonacci 7

declare -A ages=([ann]=31 [bob]=42 [eve]=7)
declare -a list=({1..20..3} {a..e})
for name in $(printf '%s\n' "${!ages[@]}" | sort); do printf '%-5s|%05d|%x\n' "$name" "${ages[$name]}" "${ages[$name]}"; done
echo "${#list[@]} ${list[*]:2:4} ${list[-1]} ${list[@]/#/<}"

text='The quick brown fox, the lazy dog'
echo "${text,,} ${text^^} ${text//the/THE} ${text%%,*} ${text##* } ${#text} ${text:4:5}"
[[ $text =~ ([a-z]+)[[:space:]]([a-z]+),[[:space:]](.*) ]] && declare -p BASH_REMATCH
case $text in *+(x|y),*) echo extglob ;; *) echo none ;; esac
printf -v quoted '%q' "it's \$5 & more"; echo "$quoted"; eval "echo $quoted"

mkdir -p deep/{one,two}/inner
for i in {1..15}; do echo "line $i" > "deep/one/file$i.txt"; done
ln -s ../one/file1.txt deep/two/link
files=(deep/**/*.txt); echo "${#files[@]} ${files[0]} $(cat deep/two/link)"
while IFS=' ' read -r word number; do ((total += number)); done < <(cat deep/one/*.txt)
echo "total $total $word"
mapfile -t lines < <(sort -t' ' -k2n deep/one/*.txt); echo "${lines[14]} ${#lines[@]}"

cat <<END | tr a-z A-Z | { read -r first; echo "$first"; wc -l; }
here $((6 * 7)) $(echo nested $(echo deeper))
$(for i in 1 2 3; do echo "row $i"; done)
END
read -r -d '' a b rest <<< 'one two three four'; echo "$a/$b/$rest"

(exit 3); echo "status $?"; (cd deep && pwd -P | sed "s,$folder,F,"); false | true | false; echo "${PIPESTATUS[*]}"
for i in 1 2 3 4; do (sleep 0.0$i; echo "$((i * i))" > "out$i") & done; wait; cat out?
coproc cat; echo 'through a coprocess' >&"${COPROC[1]}"; read -r said <&"${COPROC[0]}"; echo "$said"; kill "$COPROC_PID"; wait "$COPROC_PID"; echo "killed $?"
trap 'echo "got USR1"' USR1; kill -USR1 $$; (kill -TERM "$BASHPID"); echo "status $?"
trap 'caught=$((caught + 1))' ERR; false; (false); trap - ERR; echo "caught $caught"

declare -i sum=0; for ((i = 0; i < 2000; i++)); do sum+=i*i%7; done; echo "sum $sum $((16#ff ^ 2#1010)) $((-7 / 2)) $((2 ** 40))"
declare -n alias=sum; alias=5; echo "$sum"; unset -n alias
recurse() { (($1 == 0)) && { echo "${#FUNCNAME[@]} deep"; return 7; }; recurse $(($1 - 1)); }; recurse 200; echo "status $?"
sorted=$(for i in 5 3 9 1; do echo "$i"; done | sort -n | tr '\n' ' '); echo "$sorted"
diff <(seq 5) <(seq 2 6); echo "differ $?"
printf '%s %(%Y-%m-%d)T %.3f %b\n' date 0 2.71828 'tab\there'
set -- -a -b value rest; while getopts ab: option; do echo "$option ${OPTARG-}"; done; shift $((OPTIND - 1)); echo "$*"
(ulimit -n 64; ulimit -n); (readonly fixed=1; fixed=2) 2>/dev/null; echo "readonly $?"
bash -c 'echo "child $0 $1"; exit 4' zero one; echo "status $?"
exec 5>kept; echo kept >&5; exec 5>&-; cat kept; select choice in x y; do echo "chose $choice"; break; done <<< 2 2>/dev/null
exit 6
